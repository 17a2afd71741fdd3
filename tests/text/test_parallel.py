"""Parallel text in every layout, of files and of the hub, becomes the same record."""

import gzip
import sys
from types import SimpleNamespace

import pytest
from benchmarks.invented import invented

from isogloss import Bitext, Corpus
from isogloss.errors import InputError
from isogloss.text.readers.parallel import find_pairs, paraphrases, read_bitext, read_bitexts, read_corpus


@pytest.fixture
def folder(tmp_path):
    def _write(**files):
        for name, content in files.items():
            (tmp_path / name.replace("__", ".").replace("_", "-")).write_text(content, encoding="utf-8")
        return tmp_path

    return _write


def put(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def sentences(bitext):
    return [list(corpus) for corpus in bitext]


# Line-aligned files


def test_aligned_files_unpack_into_their_languages(tmp_path):
    en = put(tmp_path / "en.txt", "The cat.\nThe dog.\n")
    nl = put(tmp_path / "nl.txt", "De kat.\nDe hond.\n")
    english, dutch = read_bitext(en, nl, languages=("eng", "nl"))
    assert (english.language, dutch.language) == ("en", "nl")
    assert list(dutch) == ["De kat.", "De hond."]
    assert read_bitext(str(en), str(nl)).languages == ("en", "nl")


def test_three_aligned_files_and_a_compressed_one(tmp_path):
    en, nl = put(tmp_path / "a.en", "one\n"), put(tmp_path / "a.nl", "een\n")
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"eins\n", mtime=0))
    assert sentences(read_bitext(en, nl, tmp_path / "a.de.gz")) == [["one"], ["een"], ["eins"]]


def test_unequal_counts_name_each_file_with_its_count(tmp_path):
    en = put(tmp_path / "en.txt", "one\ntwo\nthree\n")
    nl = put(tmp_path / "nl.txt", "een\n")
    with pytest.raises(InputError, match=r"nl\.txt has 1 lines, .*en\.txt has more"):
        read_bitext(en, nl)


def test_rows_with_an_empty_side_are_left_out_everywhere_and_counted(tmp_path):
    en = put(tmp_path / "en.txt", "one\n\nthree\nfour\n")
    nl = put(tmp_path / "nl.txt", "een\ntwee\n  \nvier\n")
    bitext = read_bitext(en, nl)
    assert sentences(bitext) == [["one", "four"], ["een", "vier"]]
    assert (bitext.rows, bitext.dropped) == (2, 2)


def test_no_row_left_is_refused(tmp_path):
    with pytest.raises(InputError, match="no row has text in every one of en, nl"):
        read_bitext(put(tmp_path / "en.txt", "one\n\n"), put(tmp_path / "nl.txt", "\ntwee\n"))


def test_languages_must_be_told_or_show(tmp_path):
    first, second = put(tmp_path / "one.txt", "a\n"), put(tmp_path / "nl.txt", "b\n")
    with pytest.raises(InputError, match="the language of one.txt does not show"):
        read_bitext(first, second)
    with pytest.raises(InputError, match="2 files but 3 languages"):
        read_bitext(first, second, languages=("en", "nl", "de"))
    with pytest.raises(InputError, match="unknown language code 'xx'"):
        read_bitext(first, second, languages=("xx", "nl"))
    with pytest.raises(InputError, match="lists nl twice"):
        read_bitext(first, second, languages=("nl", "nld"))
    with pytest.raises(InputError, match="must be a list"):
        read_bitext(first, second, languages="en,nl")


def test_nothing_given():
    with pytest.raises(InputError, match="no bitext was given"):
        read_bitext()


# Tables


def test_a_table_with_a_header(tmp_path):
    path = put(tmp_path / "t.tsv", "en\tnld\tzh\none\teen\t一\ntwo\ttwee\t二\n")
    assert read_bitext(path).languages == ("en", "nl", "zh")
    assert sentences(read_bitext(path, languages=("zh", "en"))) == [["一", "二"], ["one", "two"]]


def test_quotation_marks_and_duplicates_are_text(tmp_path):
    row = '"He said\t"Hij zei ""\n'
    bitext = read_bitext(put(tmp_path / "t.tsv", "en\tnl\n" + row + row))
    assert sentences(bitext) == [['"He said'] * 2, ['"Hij zei ""'] * 2]


def test_an_empty_cell_means_untranslated(tmp_path):
    path = put(tmp_path / "t.tsv", "en\tnl\tru\none\teen\t\ntwo\ttwee\tдва\n")
    assert read_bitext(path, languages=("en", "nl")).rows == 2
    assert (read_bitext(path).rows, read_bitext(path).dropped) == (1, 1)


def test_a_row_of_another_width_names_file_and_line(tmp_path):
    path = put(tmp_path / "t.tsv", "en\tnl\none\teen\ntwo\n")
    with pytest.raises(InputError, match=r"t\.tsv:3: 1 cells where 2 were expected"):
        read_bitext(path)


def test_a_missing_language_names_those_that_are_there(tmp_path):
    path = put(tmp_path / "t.tsv", "en\tnl\none\teen\n")
    with pytest.raises(InputError, match=r"t\.tsv has no language de; it has en, nl"):
        read_bitext(path, languages=("en", "de"))


def test_ignored_columns_are_ignored_and_others_refused(tmp_path):
    path = put(tmp_path / "t.tsv", "kind\t#id\ten\tnl\nx\t1\tone\teen\n")
    assert read_bitext(path).languages == ("en", "nl")
    path = put(tmp_path / "u.tsv", "en\tnl\tremarks\none\teen\tx\n")
    with pytest.raises(InputError, match=r"u\.tsv:1: the header has 'remarks'"):
        read_bitext(path)


def test_a_header_may_not_name_a_language_twice(tmp_path):
    with pytest.raises(InputError, match=r":1: the header names the language zh twice"):
        read_bitext(put(tmp_path / "t.tsv", "zh\tcmn\n一\t一\n"))


@pytest.mark.parametrize("line", ["source\ttarget", "English\tDutch", "Source\tdutch"])
def test_a_header_without_codes_is_not_taken_for_a_sentence(tmp_path, line):
    path = put(tmp_path / "t.tsv", f"{line}\none\teen\n")
    with pytest.raises(InputError, match=r"t\.tsv:1: .* looks like a header.*write en<TAB>nl there"):
        read_bitext(path, languages=("en", "nl"))


def test_without_a_header_the_name_tells(tmp_path):
    path = put(tmp_path / "docs.en-nl.tsv", "one\teen\ntwo\ttwee\n")
    assert sentences(read_bitext(path, languages=("nl", "en"))) == [["een", "twee"], ["one", "two"]]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ("No\tNe\nyes\tja\n", [["No", "yes"], ["Ne", "ja"]]),
        ("No\tNo\nyes\tja\n", [["No", "yes"], ["No", "ja"]]),
        ("eng\tnl_NL\nyes\tja\n", [["yes"], ["ja"]]),
        ("#id\ten\tnl\n1\tyes\tja\n", [["yes"], ["ja"]]),
    ],
)
def test_words_that_look_like_codes_of_other_languages_than_the_name_s_are_no_header(tmp_path, content, rows):
    bitext = read_bitext(put(tmp_path / "qgis.en-nl.tsv", content))
    assert list(bitext.languages) == ["en", "nl"] and sentences(bitext) == rows


def test_without_a_header_the_caller_tells(tmp_path):
    path = put(tmp_path / "pairs.tsv", "One.\tEen.\n")
    assert read_bitext(path, languages=("en", "nl")).languages == ("en", "nl")
    with pytest.raises(InputError, match=r"pairs\.tsv:1: the first line is no header .* no languages were given"):
        read_bitext(path)
    with pytest.raises(InputError, match="2 cells and 3 languages were given"):
        read_bitext(path, languages=("en", "nl", "de"))


def test_columns_too_many_are_told_how_to_pass_them_over(tmp_path):
    path = put(tmp_path / "pairs.tsv", "One.\tEen.\t0.5\n")
    told = r"put a header such as en<TAB>nl<TAB>#3 on line 1 \(columns that begin with # are not read\)"
    with pytest.raises(InputError, match=told):
        read_bitext(path, languages=("en", "nl"))
    put(path, "en\tnl\t#3\nOne.\tEen.\t0.5\n")
    assert sentences(read_bitext(path, languages=("en", "nl"))) == [["One."], ["Een."]]


def test_files_that_are_called_by_each_other_s_language_are_refused(tmp_path):
    files = [put(tmp_path / name, f"{name}\n") for name in ("talk.en.txt", "talk.nl.txt", "sides.txt")]
    told = "by their names these are en, nl, and they were given as nl, en; change the order"
    with pytest.raises(InputError, match=told):
        read_bitext(*files[:2], languages=("nl", "en"))
    assert read_bitext(*files[:2], languages=("en", "de")).languages == ("en", "de")
    assert read_bitext(files[0], files[2], languages=("nl", "en")).languages == ("nl", "en")


def test_one_language_is_no_bitext(tmp_path):
    with pytest.raises(InputError, match="needs two languages"):
        read_bitext(put(tmp_path / "t.tsv", "en\tnl\none\teen\n"), languages=("en",))


def test_one_file_of_one_language_is_told_what_is_missing(tmp_path):
    with pytest.raises(
        InputError, match=r"en\.txt:1: there is no tab on the first line; a bitext is one file per language"
    ):
        read_bitext(put(tmp_path / "en.txt", "One.\n"), languages=("en", "nl"))


def test_bars(tmp_path):
    path = put(tmp_path / "pairs.txt", "The cat . ||| De kat .\nThe dog . ||| De hond .\n")
    assert sentences(read_bitext(path, languages=("en", "nl")))[1] == ["De kat .", "De hond ."]
    with pytest.raises(InputError, match="give the languages of its sides"):
        read_bitext(path)
    path = put(tmp_path / "bad.txt", "a ||| b\nc\n")
    with pytest.raises(InputError, match=r"bad\.txt:2: 1 sides where 2 were expected"):
        read_bitext(path, languages=("en", "nl"))


# Folders


def test_a_tatoeba_folder_gives_a_bitext_a_language_english_first(folder):
    path = folder(
        tatoeba__nld_eng__nld="een\ntwee\n",
        tatoeba__nld_eng__eng="one\ntwo\n",
        tatoeba__cmn_eng__cmn="一\n",
        tatoeba__cmn_eng__eng="one\n",
    )
    assert [bitext.languages for bitext in read_bitexts(path)] == [("en", "nl"), ("en", "zh")]
    assert sentences(read_bitext(path, languages=("zh",))) == [["one"], ["一"]]
    assert read_bitext(path, languages=("en", "nl")).rows == 2
    with pytest.raises(InputError, match="no pair with English for de; it has nl, zh"):
        read_bitexts(path, languages=("nl", "de"))
    with pytest.raises(InputError, match="holds 2 bitexts"):
        read_bitext(path)


def test_a_folder_of_pair_tables(folder):
    path = folder(en_nl__tsv="one\teen\n", en_de__tsv="one\teins\n")
    assert [bitext.languages for bitext in read_bitexts(path)] == [("en", "de"), ("en", "nl")]
    assert sentences(read_bitext(path, languages=("nl", "en"))) == [["een"], ["one"]]
    with pytest.raises(InputError, match="no table of en, fr; it has en-de, en-nl"):
        read_bitexts(path, languages=("en", "fr"))


def test_a_folder_of_aligned_sets(folder):
    path = folder(
        train__en="one\n", train__de="eins\n", train__fr="un\n", val__en="two\n", val__de="zwei\n", val__fr="deux\n"
    )
    assert [(bitext.name, bitext.rows) for bitext in read_bitexts(path)] == [("train", 1), ("val", 1)]
    assert sentences(read_bitexts(path, languages=("fr", "en"))[1]) == [["deux"], ["two"]]


def test_a_folder_of_text_files_named_by_language(folder):
    path = folder(en__txt="one\n", nl__txt="een\n", talk__en__txt="two\n", talk__nl__txt="twee\n", notes__txt="x\n")
    assert [(bitext.name, bitext.languages) for bitext in read_bitexts(path)] == [
        (path.name, ("en", "nl")),
        ("talk", ("en", "nl")),
    ]
    folder(talk__nl__txt="twee\ndrie\n")
    with pytest.raises(InputError, match="equally many lines"):
        read_bitexts(path)


def test_a_folder_of_tables_with_headers(folder):
    path = folder(talks__tsv="en\tnl\none\teen\n", notes__tsv="a\tb\n", one__txt="x\n")
    assert [(bitext.name, sentences(bitext)) for bitext in read_bitexts(path)] == [("talks.tsv", [["one"], ["een"]])]


def test_a_folder_without_parallel_text(folder):
    with pytest.raises(InputError, match="holds no parallel text by the names of its files"):
        read_bitexts(folder(notes__md="x\n"))


# One language


def test_a_corpus_passes_over_blank_lines(tmp_path):
    corpus = read_corpus(put(tmp_path / "mono.txt", "one\n\n \ntwo\n"), "eng")
    assert (corpus.language, list(corpus), corpus.name) == ("en", ["one", "two"], "mono.txt")
    with pytest.raises(InputError, match="only blank lines"):
        read_corpus(put(tmp_path / "blank.txt", "\n\n"), "en")


def test_a_corpus_from_a_column_of_a_table(tmp_path):
    assert list(read_corpus(put(tmp_path / "t.tsv", "en\tnl\none\teen\n"), "nl")) == ["een"]


# Pairs of translations, one at a time


def put_lines(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_pairs_are_found_in_files_tables_folders_and_memory(tmp_path):
    en, nl = put_lines(tmp_path / "a.txt", ["the cat", "yes"]), put_lines(tmp_path / "b.txt", ["de kat", "ja"])
    expected = [("the cat", "de kat"), ("yes", "ja")]
    assert list(find_pairs([f"en-nl={en},{nl}"])[0].open()) == expected
    assert list(find_pairs({"en-nl": (en, nl)})[0].open()) == expected
    (one,) = find_pairs(f"nl-en={put_lines(tmp_path / 't.tsv', ['en	nl', 'the cat	de kat', 'yes	ja'])}")
    assert one.title == "nl-en" and list(one.open()) == [("de kat", "the cat"), ("ja", "yes")]
    table = put_lines(tmp_path / "x.en-de-nl.tsv", ["a\tb\tc", "d\te\tf"])
    assert [(each.title, list(each.open())) for each in find_pairs(str(table))] == [
        ("en-de", [("a", "b"), ("d", "e")]),
        ("en-nl", [("a", "c"), ("d", "f")]),
    ]
    bars = put_lines(tmp_path / "bars.txt", ["the cat ||| de kat", "yes ||| ja"])
    assert list(find_pairs(f"en-nl={bars}")[0].open()) == expected
    folder = tmp_path / "sets"
    folder.mkdir()
    for language, line in {"en": "yes", "nl": "ja", "de": "ja"}.items():
        with gzip.open(folder / f"train.{language}.gz", "wt", encoding="utf-8") as file:
            file.write(f"{line}\n")
    assert {each.title: list(each.open()) for each in find_pairs(folder)} == {
        "en-de": [("yes", "ja")],
        "en-nl": [("yes", "ja")],
    }
    folder = tmp_path / "texts"
    folder.mkdir()
    put_lines(folder / "en.txt", ["yes"]), put_lines(folder / "nl.txt", ["ja"])
    assert [(each.title, list(each.open())) for each in find_pairs(folder)] == [("en-nl", [("yes", "ja")])]
    put_lines(folder / "talks.tsv", ["en\tnl", "no\tnee"])
    assert [list(each.open()) for each in find_pairs(folder)] == [[("no", "nee")]]
    both = find_pairs([invented(("qaa", "qab"), sentences=3, seed=0), f"en-nl={en},{nl}"])
    assert [each.title for each in both] == ["qaa-qab", "en-nl"] and len(list(both[0].open())) == 3


def test_mistakes_in_pairs_are_sentences(tmp_path):
    en, nl = put_lines(tmp_path / "a.txt", ["one", "two"]), put_lines(tmp_path / "b.txt", ["een", "twee", "drie"])
    with pytest.raises(InputError, match=r"equally many lines: .*a.txt has 2 lines, .*b.txt has more"):
        list(find_pairs(f"en-nl={en},{nl}")[0].open())
    for given, words in {
        f"en-en={en},{nl}": "en is named twice",
        f"en={en}": "SOURCE-TARGET=FILE,FILE",
        f"en-nl={en},{tmp_path / 'c.txt'}": "c.txt does not exist",
        str(put_lines(tmp_path / "bars.txt", ["yes ||| ja"])): "give the languages of its sides",
        str(tmp_path): "holds no parallel text by the names",
        str(put_lines(tmp_path / "one.tsv", ["en", "yes"])): "one language only",
    }.items():
        with pytest.raises(InputError, match=words):
            find_pairs([given])
    with pytest.raises(InputError, match="--train is missing"):
        find_pairs([])


def test_files_given_in_the_other_order_are_refused(tmp_path):
    en, nl = put_lines(tmp_path / "x.en", ["one"]), put_lines(tmp_path / "x.nl", ["een"])
    with pytest.raises(InputError, match="by their names these are nl, en, and they were given as en, nl; change"):
        find_pairs(f"en-nl={nl},{en}")
    assert find_pairs(f"nl-en={nl},{en}")[0].title == "nl-en"


# Paraphrases


ENGLISH = ["It is late.", "it is late!", "The hour is late.", "Yes.", "So it is.", "Sure.", "It is late."]
FRENCH = ["Il est tard.", "Il est tard.", "Il est tard.", "Oui.", "C'est vrai.", "C'est vrai.", "Il se fait tard."]
GERMAN = Bitext((Corpus("en", ["It grows late.", "It is late.", "Yes."]), Corpus("de", ["Es ist spät."] * 2 + ["Ja."])))


def english_and_french():
    return Bitext((Corpus("en", ENGLISH), Corpus("fr", FRENCH)))


def pairs(bitext):
    return [frozenset(pair) for pair in zip(*(corpus.sentences for corpus in bitext), strict=True)]


def test_pairs_share_a_translation_differ_in_letters_and_no_sentence_comes_twice():
    found = paraphrases([english_and_french(), GERMAN])
    assert found.languages == ("en", "en2")
    assert pairs(found) == [frozenset(("It is late.", "The hour is late.")), frozenset(("So it is.", "Sure."))]
    assert pairs(paraphrases([GERMAN])) == [frozenset(("It grows late.", "It is late."))]


def test_the_same_texts_give_the_same_pairs_and_neither_side_is_the_sorted_one():
    many = Bitext(
        (Corpus("en", [f"number {i:03}" for i in range(400)]), Corpus("nl", [str(i // 2) for i in range(400)]))
    )
    one, other = paraphrases([many]), paraphrases([many])
    assert one == other and one.rows == 200
    first = sum(a < b for a, b in zip(*(corpus.sentences for corpus in one), strict=True))
    assert 70 < first < 130


def test_any_language_of_the_text_can_be_asked_for_and_nothing_found_is_said():
    twice = Bitext((Corpus("en", ["Yes."] * 2), Corpus("fr", ["Oui.", "Si."])))
    assert pairs(paraphrases([twice], "fra")) == [frozenset(("Oui.", "Si."))]
    with pytest.raises(InputError, match="no two sentences of en share a translation"):
        paraphrases([twice])


class Data:
    """What the readers use of a data set: its columns."""

    def __init__(self, **columns):
        self.columns = columns
        self.column_names = list(columns)

    def __getitem__(self, name):
        return self.columns[name]


@pytest.fixture
def hub(monkeypatch):
    def _install(configs, splits=("train", "test")):
        def load(name, config, *, split):
            if name == "no/such":
                raise FileNotFoundError("Dataset 'no/such' doesn't exist on the Hub")
            assert split in splits
            return configs[config]

        stand_in = SimpleNamespace(
            get_dataset_config_names=lambda name: list(configs),
            get_dataset_split_names=lambda name, config: list(splits),
            load_dataset=load,
        )
        monkeypatch.setitem(sys.modules, "datasets", stand_in)

    return _install


PAIRS = {
    "nld-eng": Data(sentence1=["een", "twee"], sentence2=["one", "two"], lang=["nld-eng"] * 2),
    "deu-eng": Data(sentence1=["eins"], sentence2=["one"]),
}


def test_a_configuration_a_pair_english_first(hub):
    hub(PAIRS)
    bitexts = read_bitexts("hf:mteb/tatoeba-bitext-mining")
    assert [bitext.languages for bitext in bitexts] == [("en", "nl"), ("en", "de")]
    dutch = read_bitext("hf:mteb/tatoeba-bitext-mining", languages=("nl",))
    assert [list(corpus) for corpus in dutch] == [["one", "two"], ["een", "twee"]]
    assert read_bitext("hf:mteb/tatoeba-bitext-mining", languages=("nl", "en")).languages == ("nl", "en")


def test_a_missing_pair_names_those_there_are(hub):
    hub(PAIRS)
    with pytest.raises(InputError, match="has no pair of en, fr; it has nl-en, de-en"):
        read_bitexts("hf:x/y", languages=("en", "fr"))


def test_translations_in_one_column(hub):
    hub({"en-fr": Data(translation=[{"en": "one", "fr": "un"}, {"en": "two", "fr": "deux"}])})
    assert [list(corpus) for corpus in read_bitext("hf:opus100@train", languages=("fr", "en"))] == [
        ["un", "deux"],
        ["one", "two"],
    ]


def test_columns_named_after_languages(hub):
    hub({"default": Data(key=["1"], eng=["one"], nld=["een"])})
    assert read_bitext("hf:x/y").languages == ("en", "nl")


def test_other_columns_are_refused(hub):
    hub({"default": Data(text=["one"], label=[1])})
    with pytest.raises(InputError, match="has the columns text, label; expected sentence1 and sentence2"):
        read_bitext("hf:x/y")


def test_a_missing_split_or_data_set(hub):
    hub(PAIRS)
    with pytest.raises(InputError, match="no split 'dev'; there is train, test"):
        read_bitexts("hf:x/y@dev")
    with pytest.raises(InputError, match="hf:no/such cannot be loaded: Dataset 'no/such' doesn't exist"):
        read_bitexts("hf:no/such", languages=("nl",))


def test_without_the_package_the_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'isogloss\[datasets\]'"):
        read_bitexts("hf:x/y")


def test_links_do_not_go_with_several_bitexts(hub, tmp_path):
    hub(PAIRS)
    with pytest.raises(InputError, match="give it alone and without links"):
        read_bitexts("hf:x/y", links=tmp_path / "x.links")


def test_a_data_set_saved_to_disk(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"en": ["one"], "nl": ["een"]}).save_to_disk(str(tmp_path / "saved"))
    assert [list(corpus) for corpus in read_bitext(f"hf:{tmp_path / 'saved'}")] == [["one"], ["een"]]
