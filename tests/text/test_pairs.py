"""Pairs of translations: found by what is given, streamed, packed into ids, drawn by seed and step."""

import gzip
import tracemalloc

import numpy as np
import pytest
from tokenizers import processors

from isogloss.errors import InputError
from isogloss.text.invented import invented
from isogloss.text.readers.parallel import find_pairs
from isogloss.text.sampling import PairSampler, shuffled
from isogloss.text.streams import borders_of, open_pairs, pack_pairs
from tiny_models import tiny_tokenizer


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def packed(pairs, path, longest=64, tokenizer=None):
    return pack_pairs(tokenizer or tiny_tokenizer(), pairs, path, languages=("en", "nl"), longest=longest)


def test_pairs_are_found_in_files_tables_folders_and_memory(tmp_path):
    en, nl = write(tmp_path / "a.txt", ["the cat", "yes"]), write(tmp_path / "b.txt", ["de kat", "ja"])
    expected = [("the cat", "de kat"), ("yes", "ja")]
    assert list(find_pairs([f"en-nl={en},{nl}"])[0].open()) == expected
    assert list(find_pairs({"en-nl": (en, nl)})[0].open()) == expected
    (one,) = find_pairs(f"nl-en={write(tmp_path / 't.tsv', ['en	nl', 'the cat	de kat', 'yes	ja'])}")
    assert one.title == "nl-en" and list(one.open()) == [("de kat", "the cat"), ("ja", "yes")]
    table = write(tmp_path / "x.en-de-nl.tsv", ["a\tb\tc", "d\te\tf"])
    assert [(each.title, list(each.open())) for each in find_pairs(str(table))] == [
        ("en-de", [("a", "b"), ("d", "e")]), ("en-nl", [("a", "c"), ("d", "f")])
    ]  # fmt: skip
    bars = write(tmp_path / "bars.txt", ["the cat ||| de kat", "yes ||| ja"])
    assert list(find_pairs(f"en-nl={bars}")[0].open()) == expected
    folder = tmp_path / "sets"
    folder.mkdir()
    for language, line in {"en": "yes", "nl": "ja", "de": "ja"}.items():
        with gzip.open(folder / f"train.{language}.gz", "wt", encoding="utf-8") as file:
            file.write(f"{line}\n")
    assert {each.title: list(each.open()) for each in find_pairs(folder)} == {
        "en-de": [("yes", "ja")], "en-nl": [("yes", "ja")]
    }  # fmt: skip
    folder = tmp_path / "texts"
    folder.mkdir()
    write(folder / "en.txt", ["yes"]), write(folder / "nl.txt", ["ja"])
    assert [(each.title, list(each.open())) for each in find_pairs(folder)] == [("en-nl", [("yes", "ja")])]
    write(folder / "talks.tsv", ["en\tnl", "no\tnee"])
    assert [list(each.open()) for each in find_pairs(folder)] == [[("no", "nee")]]
    both = find_pairs([invented(("qaa", "qab"), sentences=3, seed=0), f"en-nl={en},{nl}"])
    assert [each.title for each in both] == ["qaa-qab", "en-nl"] and len(list(both[0].open())) == 3


def test_mistakes_are_sentences(tmp_path):
    en, nl = write(tmp_path / "a.txt", ["one", "two"]), write(tmp_path / "b.txt", ["een", "twee", "drie"])
    with pytest.raises(InputError, match=r"equally many lines: .*a.txt has 2 lines, .*b.txt has more"):
        list(find_pairs(f"en-nl={en},{nl}")[0].open())
    for given, words in {
        f"en-en={en},{nl}": "en is named twice",
        f"en={en}": "SOURCE-TARGET=FILE,FILE",
        f"en-nl={en},{tmp_path / 'c.txt'}": "c.txt does not exist",
        str(write(tmp_path / "bars.txt", ["yes ||| ja"])): "give the languages of its sides",
        str(tmp_path): "holds no parallel text by the names",
        str(write(tmp_path / "one.tsv", ["en", "yes"])): "one language only",
    }.items():
        with pytest.raises(InputError, match=words):
            find_pairs([given])
    with pytest.raises(InputError, match="--train is missing"):
        find_pairs([])


def test_files_given_in_the_other_order_are_refused(tmp_path):
    en, nl = write(tmp_path / "x.en", ["one"]), write(tmp_path / "x.nl", ["een"])
    with pytest.raises(InputError, match="by their names these are nl, en, and they were given as en, nl; change"):
        find_pairs(f"en-nl={nl},{en}")
    assert find_pairs(f"nl-en={nl},{en}")[0].title == "nl-en"


def test_borders_are_what_the_tokenizer_puts_there():
    borders = borders_of(tiny_tokenizer())
    assert (borders.before, borders.after) == ((2,), (3,))
    assert (borders.pair_before, borders.between, borders.pair_after) == ((2,), (3,), (3,))
    assert (borders.single, borders.pair) == (2, 3)


def test_packed_pairs_are_what_the_tokenizer_makes_of_them(tmp_path):
    tokenizer = tiny_tokenizer()
    pairs = [("the cat sleeps", "de kat slaapt"), ("yes", "[SEP] [MASK] ja"), ("猫", "we drink water")]
    stream = packed(pairs, tmp_path / "p.npy")
    assert len(stream) == 3 and stream.languages == ("en", "nl") and stream.ids.dtype == np.uint16
    for number in (0, 2):
        for side, text in zip(stream.sides(number), pairs[number], strict=True):
            assert side.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
    marks = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    assert not marks & set(stream.ids.tolist()), "a mark that is written in the text is text"
    again = open_pairs(tmp_path / "p.npy")
    assert np.array_equal(again.ids, stream.ids) and np.array_equal(again.begins, stream.begins)


def test_empty_sides_go_and_long_ones_are_cut_and_both_are_counted(tmp_path):
    long = "the cat sleeps on the chair " * 4
    stream = packed(
        [("", "ja"), ("yes", " "), ("yes", "ja"), (long, "ja"), (long, long)], tmp_path / "p.npy", longest=16
    )
    assert (len(stream), stream.left_out, stream.cut) == (3, 2, 2)
    assert len(stream.sides(1)[0]) == 14 and len(stream.sides(2)[1]) == 14


def test_what_is_no_packed_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no packed pairs"):
        open_pairs(tmp_path / "none.npy")
    packed([("yes", "ja")] * 3, tmp_path / "p.npy")
    (tmp_path / "p.json").write_text((tmp_path / "p.json").read_text().replace('"pairs": 3', '"pairs": 4'))
    with pytest.raises(InputError, match="does not hold the 4 pairs"):
        open_pairs(tmp_path / "p.npy")


def test_memory_does_not_grow_with_the_text(tmp_path):
    tokenizer = tiny_tokenizer()

    def peak(count):
        tracemalloc.start()
        pairs = (("the cat sleeps on the chair", "de kat slaapt op de stoel") for _ in range(count))
        stream = pack_pairs(tokenizer, pairs, tmp_path / f"{count}.npy", languages=("en", "nl"), longest=64)
        PairSampler({"en-nl": len(stream)}, exponent=1.0, seed=0).rows(10, 32)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(12_000) < 1.2 * peak(4_000)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 1000])
def test_a_shuffle_is_a_permutation_that_hangs_on_its_key_alone(size):
    found = shuffled(np.arange(size), size, key=[3, 1])
    assert sorted(found.tolist()) == list(range(size))
    some = np.array([0, size - 1, size // 2])
    assert np.array_equal(shuffled(some, size, key=[3, 1]), found[some])
    if size > 10:
        assert not np.array_equal(shuffled(np.arange(size), size, key=[3, 2]), found)
        assert not np.array_equal(found, np.arange(size))


def test_a_shuffle_looks_random():
    found = shuffled(np.arange(4096), 4096, key=[7])
    fixed = int((found == np.arange(4096)).sum())
    close = int((np.abs(np.diff(found)) == 1).sum())
    assert fixed < 8 and close < 12  # a random permutation has 1 and 2 on average
    assert abs(np.corrcoef(found, np.arange(4096))[0, 1]) < 0.06


def test_an_epoch_sees_every_pair_once_and_groups_in_proportion():
    sampler = PairSampler({"en-nl": 30, "en-ru": 90}, exponent=1.0, seed=5)
    seen = [[], []]
    for step in range(24):
        for group, number in zip(*(one.tolist() for one in sampler.rows(step, 10)), strict=True):
            seen[group].append(number)
    assert abs(len(seen[0]) - 60) <= 2 and abs(len(seen[1]) - 180) <= 2
    for group, size in enumerate((30, 90)):
        first, second = seen[group][:size], seen[group][size : 2 * size]
        assert sorted(first) == list(range(size)) and first != sorted(first)
        assert len(set(second)) == len(second) and first[: len(second)] != second
    asked = [sampler.rows(step, 10) for step in (7, 3, 7)]
    assert all(np.array_equal(one, other) for one, other in zip(asked[0], asked[2], strict=True))
    other = PairSampler({"en-nl": 30, "en-ru": 90}, exponent=1.0, seed=6).rows(7, 10)
    assert not np.array_equal(asked[0][1], other[1])
    assert sampler.epochs(12, 10)["en-ru"] == pytest.approx(1.0, abs=0.02)


def test_two_marks_between_are_borders_too():
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    borders = borders_of(tokenizer)
    assert (borders.pair_before, borders.between, borders.pair_after) == ((2,), (3, 3), (3,))
    whole = tokenizer("the cat", "de kat")["input_ids"]
    a, b = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("the cat", "de kat"))
    assert whole == [*borders.pair_before, *a, *borders.between, *b, *borders.pair_after]
