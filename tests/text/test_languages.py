"""Codes of every standard in use fold into one short code a language."""

from pathlib import Path

import pytest

from isogloss.errors import InputError
from isogloss.text import languages
from isogloss.text.languages import code, is_code, name, plain, short_name

TATOEBA = """
    afr amh ang ara arq arz ast awa aze bel ben ber bos bre bul cat cbk ceb ces cha cmn cor csb cym dan deu
    dsb dtp ell epo est eus fao fin fra fry gla gle glg gsw heb hin hrv hsb hun hye ido ile ina ind isl ita
    jav jpn kab kat kaz khm kor kur kzj lat lfn lit lvs mal mar max mhr mkd mon nds nld nno nob nov oci orv
    pam pes pms pol por ron rus slk slv spa sqi srp swe swg swh tam tat tel tgl tha tuk tur tzl uig ukr urd
    uzb vie war wuu xho yid yue zsm
"""
PUD = "ar cs de en es fi fr hi id is it ja ko pl pt ru sv th tr zh"
XNLI = "ar bg de el en es fr hi ru sw th tr ur vi zh"
MUSE = "ar bg ca de el es fr hi it ja ru sw th tr ur vi zh en da nl"


def test_every_tatoeba_language_has_a_code_of_its_own():
    codes = TATOEBA.split()
    assert len(codes) == 112
    assert len({code(each) for each in codes}) == 112


@pytest.mark.parametrize("each", sorted({*PUD.split(), *XNLI.split(), *MUSE.split()}))
def test_two_letter_codes_stay(each):
    assert code(each) == each


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("eng", "en"),
        ("nld", "nl"),
        ("dut", "nl"),
        ("deu", "de"),
        ("fra", "fr"),
        ("cmn", "zh"),
        ("zho", "zh"),
        ("arb", "ar"),
        ("ara", "ar"),
        ("pes", "fa"),
        ("swh", "sw"),
        ("lvs", "lv"),
        ("zsm", "ms"),
        ("nob", "nb"),
        ("arz", "arz"),
        ("yue", "yue"),
        ("EN", "en"),
        ("zh_CN", "zh"),
        ("pt-BR", "pt"),
        ("nld_Latn", "nl"),
        ("qaa", "qaa"),
        ("qtz", "qtz"),
        ("en2", "en2"),
        ("eng3", "en3"),
        ("qaa2", "qaa2"),
    ],
)
def test_code_of(given, expected):
    assert code(given) == expected


@pytest.mark.parametrize("wrong", ["xx", "", "en-nl", "english", "quz", "genre", "key", "en1", "en22", "xx2", "2"])
def test_unknown_codes_are_refused_in_one_sentence(wrong):
    assert not is_code(wrong)
    with pytest.raises(InputError, match=f"unknown language code '{wrong}'.*ISO 639"):
        code(wrong)


def test_names():
    assert name("nld") == "Dutch"
    assert name("ang") == "Old English"
    assert (name("qaa"), short_name("qaa"), short_name("nld")) == ("Local language qaa", "qaa", "Dutch")
    assert (name("en2"), plain("eng2"), plain("nl")) == ("English 2", "en", "nl")
    assert all(name(each) for each in TATOEBA.split())


def test_no_code_is_listed_twice():
    lines = Path(languages.__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()[1:]
    codes = [word for line in lines for word in line.partition("\t")[0].split()]
    assert len(codes) == len(set(codes))
