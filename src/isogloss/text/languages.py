"""Language codes: one canonical short code a language, whatever standard a file uses.

Tatoeba names its files with ISO 639-3 (`nld`, `cmn`), treebanks and XNLI with ISO 639-1 (`nl`, `zh`), FLORES
with `nld_Latn`. Inside the toolkit a language has one code: two letters where ISO 639-1 has them, three
otherwise. The code of a standard variety becomes that of the language it stands for in those data sets (`cmn` -> `zh`,
`pes` -> `fa`, `arb` -> `ar`, `swh` -> `sw`, `lvs` -> `lv`, `zsm` -> `ms`); varieties with data sets of their own keep
their code (`arz`, `yue`). ISO 639 reserves `qaa`..`qtz` for local use: they are accepted, for invented languages.
"""

import re
from collections.abc import Sequence
from functools import cache

from isogloss.errors import InputError, require

# `codes Name`, the first code being the canonical one.
_TABLE = """
    aa aar Afar; ab abk Abkhazian; ae ave Avestan; af afr Afrikaans; ak aka Akan; am amh Amharic; an arg Aragonese;
    ang Old English; ar ara arb Arabic; arq Algerian Arabic; ary Moroccan Arabic; arz Egyptian Arabic;
    as asm Assamese; ast Asturian; av ava Avaric; awa Awadhi; ay aym ayr Aymara; az aze azj Azerbaijani;
    azb South Azerbaijani; ba bak Bashkir; be bel Belarusian; ber Berber; bg bul Bulgarian; bho bh Bhojpuri;
    bi bis Bislama; bm bam Bambara; bn ben Bengali; bo bod tib Tibetan; br bre Breton; bs bos Bosnian; ca cat Catalan;
    cbk Chavacano; ce che Chechen; ceb Cebuano; ch cha Chamorro; ckb Central Kurdish; co cos Corsican; cr cre Cree;
    cs ces cze Czech; csb Kashubian; cu chu Church Slavic; cv chv Chuvash; cy cym wel Welsh; da dan Danish;
    de deu ger German; dsb Lower Sorbian; dtp Central Dusun; dv div Divehi; dz dzo Dzongkha; ee ewe Ewe;
    el ell gre Greek; en eng English; eo epo Esperanto; es spa Spanish; et est ekk Estonian; eu eus baq Basque;
    fa fas per pes Persian; ff ful fuv Fulah; fi fin Finnish; fj fij Fijian; fo fao Faroese; fr fra fre French;
    fur Friulian; fy fry Western Frisian; ga gle Irish; gd gla Scottish Gaelic; gl glg Galician; gn grn gug Guarani;
    gom Konkani; grc Ancient Greek; gsw Swiss German; gu guj Gujarati; gv glv Manx; ha hau Hausa; haw Hawaiian;
    he heb iw Hebrew; hi hin Hindi; ho hmo Hiri Motu; hr hrv Croatian; hsb Upper Sorbian; ht hat Haitian Creole;
    hu hun Hungarian; hy hye arm Armenian; hz her Herero; ia ina Interlingua; id ind Indonesian; ie ile Interlingue;
    ig ibo Igbo; ii iii Sichuan Yi; ik ipk Inupiaq; ilo Iloko; io ido Ido; is isl ice Icelandic; it ita Italian;
    iu iku Inuktitut; ja jpn Japanese; jv jav jw Javanese; ka kat geo Georgian; kab Kabyle; kg kon Kongo;
    ki kik Kikuyu; kj kua Kuanyama; kk kaz Kazakh; kl kal Greenlandic; km khm Khmer; kn kan Kannada; ko kor Korean;
    kr kau knc Kanuri; ks kas Kashmiri; ku kur kmr Kurdish; kv kom kpv Komi; kw cor Cornish; ky kir Kyrgyz;
    kzj Coastal Kadazan; la lat Latin; lb ltz Luxembourgish; lfn Lingua Franca Nova; lg lug Ganda; li lim Limburgish;
    lij Ligurian; lmo Lombard; ln lin Lingala; lo lao Lao; lt lit Lithuanian; ltg Latgalian; lu lub Luba-Katanga;
    lv lav lvs Latvian; lzh Classical Chinese; mai Maithili; max North Moluccan Malay; mg mlg plt Malagasy;
    mh mah Marshallese; mhr Meadow Mari; mi mri mao Maori; mk mkd mac Macedonian; ml mal Malayalam;
    mn mon khk Mongolian; mr mar Marathi; ms msa may zsm Malay; mt mlt Maltese; my mya bur Burmese; na nau Nauru;
    nb nob Norwegian Bokmål; nd nde North Ndebele; nds Low German; ne nep npi Nepali; ng ndo Ndonga; nl nld dut Dutch;
    nn nno Norwegian Nynorsk; no nor Norwegian; nov Novial; nr nbl South Ndebele; nso Northern Sotho; nv nav Navajo;
    ny nya Chichewa; oc oci Occitan; oj oji Ojibwa; om orm gaz Oromo; or ori ory Odia; orv Old East Slavic;
    os oss Ossetian; pa pan Punjabi; pag Pangasinan; pam Kapampangan; pap Papiamento; pi pli Pali; pl pol Polish;
    pms Piedmontese; pnb Western Punjabi; ps pus pbt Pashto; pt por Portuguese; qu que quy Quechua; rm roh Romansh;
    rn run Rundi; ro ron rum mol Romanian; ru rus Russian; rw kin Kinyarwanda; sa san Sanskrit; sah Yakut;
    sc srd Sardinian; scn Sicilian; sd snd Sindhi; se sme Northern Sami; sg sag Sango; sh hbs Serbo-Croatian;
    shn Shan; si sin Sinhala; sk slk slo Slovak; sl slv Slovenian; sm smo Samoan; sn sna Shona; so som Somali;
    sq sqi alb als Albanian; sr srp Serbian; ss ssw Swati; st sot Southern Sotho; su sun Sundanese; sv swe Swedish;
    sw swa swh Swahili; swg Swabian; szl Silesian; ta tam Tamil; te tel Telugu; tg tgk Tajik; th tha Thai;
    ti tir Tigrinya; tk tuk Turkmen; tl tgl fil Tagalog; tn tsn Tswana; to ton Tongan; tpi Tok Pisin; tr tur Turkish;
    ts tso Tsonga; tt tat Tatar; tw twi Twi; ty tah Tahitian; tzl Talossan; udm Udmurt; ug uig Uyghur;
    uk ukr Ukrainian; ur urd Urdu; uz uzb uzn Uzbek; ve ven Venda; vec Venetian; vi vie Vietnamese; vo vol Volapük;
    wa wln Walloon; war Waray; wo wol Wolof; wuu Wu Chinese; xh xho Xhosa; yi yid ydd Yiddish; yo yor Yoruba;
    yue Cantonese; za zha Zhuang; zh zho chi cmn Chinese; zu zul Zulu
"""

_LOCAL = re.compile(r"q[a-t][a-z]")
# A region or script after the code, as in pt-BR, zh_CN, nld_Latn; lower case is refused: en-nl is a pair. Or a number:
# en2 is English a second time, beside en in one text: paraphrases, or what a second model reads.
_CODE = re.compile(r"([A-Za-z]{2,3})(?:[-_](?:[A-Z]{2}|[A-Z][a-z]{3})|([2-9]))?")


@cache
def _records() -> tuple[dict[str, str], dict[str, str]]:
    """Every accepted code -> canonical code, and canonical code -> name."""
    canonical: dict[str, str] = {}
    names: dict[str, str] = {}
    for entry in _TABLE.split(";"):
        words = entry.split()
        codes = [word for word in words if word.islower()]
        names[codes[0]] = " ".join(words[len(codes) :])
        canonical |= dict.fromkeys(codes, codes[0])
    return canonical, names


def is_code(text: str) -> bool:
    """Whether `code` would accept this text: `is_code("nl")` is True, `is_code("genre")` False."""
    return _lookup(text) is not None


def _lookup(text: str) -> str | None:
    match = _CODE.fullmatch(text)
    if match is None:
        return None
    short = match[1].lower()
    canonical = short if _LOCAL.fullmatch(short) else _records()[0].get(short)
    return canonical and canonical + (match[2] or "")


def code(text: str) -> str:
    """The canonical short code: `code("nld")` and `code("nl")` are `"nl"`, `code("zh_CN")` is `"zh"`.

    A number behind it names the same language again: `code("eng2")` is `"en2"`, which a text can have beside `en`.
    """
    short = _lookup(text)
    if short is None:
        raise InputError(
            f"unknown language code {text!r}; expected ISO 639-1 such as 'nl' or ISO 639-3 such as 'nld' "
            "(qaa..qtz for invented languages)"
        )
    return short


def plain(text: str) -> str:
    """The code without the number of a second text of the language: `en` for `en2`: `plain("en2")` is `"en"`."""
    return code(text).rstrip("23456789")


def name(text: str) -> str:
    """The English name: `name("nld")` is `"Dutch"`, `name("en2")` is `"English 2"`."""
    short = plain(text)
    english = f"Local language {short}" if _LOCAL.fullmatch(short) else _records()[1][short]
    return " ".join((english, *code(text)[len(short) :]))


def short_name(text: str) -> str:
    """The same, but an invented language is called by its code: `short_name("qaa")` is `"qaa"`."""
    return text if _LOCAL.fullmatch(text) else name(text)


def checked_codes(languages: Sequence[str] | None) -> tuple[str, ...] | None:
    """The languages a user chose as canonical codes: an unknown code or a repeated one is an InputError.

    Args:
        languages: codes of any known standard; None, which is returned as it is, means that no choice was made.
    """
    if languages is None:
        return None
    if isinstance(languages, str):
        raise InputError(f"languages must be a list such as ('en', 'nl'), not the text {languages!r}")
    codes = tuple(code(each) for each in languages)
    twice = sorted({each for each in codes if codes.count(each) > 1})
    if twice:
        raise InputError(
            f"languages lists {', '.join(twice)} twice: {', '.join(languages)}; a language that stands in a text twice "
            f"has a number the second time, as in {twice[0]},{plain(twice[0])}2"
        )
    return codes


def pick_languages(wanted: Sequence[str] | None, available: Sequence[str], *, where: object) -> list[str]:
    """The wanted languages in their order, or all available ones; a missing one is an InputError.

    Args:
        wanted: canonical codes, or None for all of `available`.
        available: the canonical codes to choose from.
        where: the file or folder, for the message.
    """
    missing = [each for each in wanted or () if each not in available]
    require(not missing, f"{where} has no language {', '.join(missing)}; it has {', '.join(available)}")
    return list(available if wanted is None else wanted)
