"""`--repeat PATTERN=N`: which files' text is taken several times, or not at all."""

from pathlib import Path

import pytest

from isogloss.errors import InputError
from isogloss.recipes.packed_text import repeat_files
from isogloss.recipes.recipe import describe_files

TEXTS = {"en": [Path("help.en.txt"), Path("books.en.txt")], "nl": [Path("help.nl.txt")]}


def test_files_are_repeated_by_their_names():
    found = repeat_files(TEXTS, ["help.*=2", "*.en.txt=3"])
    assert found == {"en": [Path("help.en.txt")] * 3 + [Path("books.en.txt")] * 3, "nl": [Path("help.nl.txt")] * 2}
    assert repeat_files(TEXTS, []) == TEXTS
    assert repeat_files(TEXTS, ["books.en.txt=0"])["en"] == [Path("help.en.txt")]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["help.*"], "--repeat takes PATTERN=N"),
        (["=3"], "--repeat takes PATTERN=N"),
        (["help.*=-1"], "--repeat takes PATTERN=N"),
        (["laws.*=2"], "--repeat laws.*=2: no file of --text is named so"),
        (["help.nl.txt=0"], "--repeat leaves no text of nl"),
    ],
)
def test_mistakes_are_named(given, sentence):
    with pytest.raises(InputError) as caught:
        repeat_files(TEXTS, given)
    assert sentence in str(caught.value)


def test_a_run_records_a_file_once_with_how_often_it_is_taken(tmp_path):
    path = tmp_path / "help.en.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    (once,) = describe_files({"en": [path]})["en"]
    (twice,) = describe_files({"en": [path, path]})["en"]
    assert "times" not in once and twice == {**once, "times": 2}
