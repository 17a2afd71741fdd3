"""Language codes: one canonical short code a language, whatever standard a file uses.

Tatoeba names its files with ISO 639-3 (`nld`, `cmn`), treebanks and XNLI with ISO 639-1 (`nl`, `zh`), FLORES
with `nld_Latn`. Inside the toolkit a language has one code: two letters where ISO 639-1 has them, three
otherwise. Codes of a large variety fold into the language they stand for in those data sets (`cmn` -> `zh`,
`pes` -> `fa`, `arb` -> `ar`, `swh` -> `sw`, `lvs` -> `lv`, `zsm` -> `ms`); distinct data sets stay distinct
(`arz`, `yue`). ISO 639 reserves `qaa`..`qtz` for local use: they are accepted, for invented languages.
"""

import re
from functools import cache

from isogloss.errors import InputError

# Per main script: `codes Name`, the first code being the canonical one.
_TABLE = {
    "Latin": """
        aa aar Afar; af afr Afrikaans; ak aka Akan; an arg Aragonese; ang Old English; ast Asturian;
        ay aym ayr Aymara; az aze azj Azerbaijani; ber Berber; bi bis Bislama; bm bam Bambara;
        br bre Breton; bs bos Bosnian; ca cat Catalan; cbk Chavacano; ceb Cebuano; ch cha Chamorro;
        co cos Corsican; kw cor Cornish; cs ces cze Czech; csb Kashubian; cy cym wel Welsh;
        da dan Danish; de deu ger German; dsb Lower Sorbian; dtp Central Dusun; ee ewe Ewe;
        en eng English; eo epo Esperanto; es spa Spanish; et est ekk Estonian; eu eus baq Basque;
        ff ful fuv Fulah; fi fin Finnish; fj fij Fijian; fo fao Faroese; fr fra fre French;
        fur Friulian; fy fry Western Frisian; ga gle Irish; gd gla Scottish Gaelic; gl glg Galician;
        gn grn gug Guarani; gsw Swiss German; gv glv Manx; ha hau Hausa; haw Hawaiian; ho hmo Hiri Motu;
        hr hrv Croatian; hsb Upper Sorbian; ht hat Haitian Creole; hu hun Hungarian; hz her Herero;
        ia ina Interlingua; id ind Indonesian; ie ile Interlingue; ig ibo Igbo; ik ipk Inupiaq;
        ilo Iloko; io ido Ido; is isl ice Icelandic; it ita Italian; jv jav jw Javanese; kab Kabyle;
        kg kon Kongo; ki kik Kikuyu; kj kua Kuanyama; kl kal Greenlandic; kr kau knc Kanuri;
        ku kur kmr Kurdish; kzj Coastal Kadazan; la lat Latin; lb ltz Luxembourgish;
        lfn Lingua Franca Nova; lg lug Ganda; li lim Limburgish; lij Ligurian; lmo Lombard;
        ln lin Lingala; lt lit Lithuanian; ltg Latgalian; lu lub Luba-Katanga; lv lav lvs Latvian;
        max North Moluccan Malay; mg mlg plt Malagasy; mh mah Marshallese; mi mri mao Maori;
        ms msa may zsm Malay; mt mlt Maltese; na nau Nauru; nb nob Norwegian Bokmål;
        nd nde North Ndebele; nds Low German; ng ndo Ndonga; nl nld dut Dutch; nn nno Norwegian Nynorsk;
        no nor Norwegian; nov Novial; nr nbl South Ndebele; nso Northern Sotho; nv nav Navajo;
        ny nya Chichewa; oc oci Occitan; om orm gaz Oromo; pag Pangasinan; pam Kapampangan;
        pap Papiamento; pl pol Polish; pms Piedmontese; pt por Portuguese; qu que quy Quechua;
        rm roh Romansh; rn run Rundi; ro ron rum mol Romanian; rw kin Kinyarwanda; sc srd Sardinian;
        scn Sicilian; se sme Northern Sami; sg sag Sango; sh hbs Serbo-Croatian; sk slk slo Slovak;
        sl slv Slovenian; sm smo Samoan; sn sna Shona; so som Somali; sq sqi alb als Albanian;
        ss ssw Swati; st sot Southern Sotho; su sun Sundanese; sv swe Swedish; sw swa swh Swahili;
        swg Swabian; szl Silesian; tk tuk Turkmen; tl tgl fil Tagalog; tn tsn Tswana; to ton Tongan;
        tpi Tok Pisin; tr tur Turkish; ts tso Tsonga; tw twi Twi; ty tah Tahitian; tzl Talossan;
        uz uzb uzn Uzbek; ve ven Venda; vec Venetian; vi vie Vietnamese; vo vol Volapük; wa wln Walloon;
        war Waray; wo wol Wolof; xh xho Xhosa; yo yor Yoruba; za zha Zhuang; zu zul Zulu
    """,
    "Cyrillic": """
        ab abk Abkhazian; av ava Avaric; ba bak Bashkir; be bel Belarusian; bg bul Bulgarian;
        ce che Chechen; cu chu Church Slavic; cv chv Chuvash; kk kaz Kazakh; kv kom kpv Komi;
        ky kir Kyrgyz; mhr Meadow Mari; mk mkd mac Macedonian; mn mon khk Mongolian;
        orv Old East Slavic; os oss Ossetian; ru rus Russian; sah Yakut; sr srp Serbian; tg tgk Tajik;
        tt tat Tatar; udm Udmurt; uk ukr Ukrainian
    """,
    "Arabic": """
        ar ara arb Arabic; arq Algerian Arabic; ary Moroccan Arabic; arz Egyptian Arabic;
        azb South Azerbaijani; ckb Central Kurdish; fa fas per pes Persian; ks kas Kashmiri;
        pnb Western Punjabi; ps pus pbt Pashto; sd snd Sindhi; ug uig Uyghur; ur urd Urdu
    """,
    "Devanagari": """
        awa Awadhi; bho bh Bhojpuri; gom Konkani; hi hin Hindi; mai Maithili; mr mar Marathi;
        ne nep npi Nepali; pi pli Pali; sa san Sanskrit
    """,
    "Han": "lzh Classical Chinese; wuu Wu Chinese; yue Cantonese; zh zho chi cmn Chinese",
    "Japanese": "ja jpn Japanese",
    "Hangul": "ko kor Korean",
    "Greek": "el ell gre Greek; grc Ancient Greek",
    "Hebrew": "he heb iw Hebrew; yi yid ydd Yiddish",
    "Thai": "th tha Thai",
    "Lao": "lo lao Lao",
    "Khmer": "km khm Khmer",
    "Myanmar": "my mya bur Burmese; shn Shan",
    "Bengali": "as asm Assamese; bn ben Bengali",
    "Gujarati": "gu guj Gujarati",
    "Gurmukhi": "pa pan Punjabi",
    "Kannada": "kn kan Kannada",
    "Malayalam": "ml mal Malayalam",
    "Odia": "or ori ory Odia",
    "Sinhala": "si sin Sinhala",
    "Tamil": "ta tam Tamil",
    "Telugu": "te tel Telugu",
    "Tibetan": "bo bod tib Tibetan; dz dzo Dzongkha",
    "Thaana": "dv div Divehi",
    "Ethiopic": "am amh Amharic; ti tir Tigrinya",
    "Armenian": "hy hye arm Armenian",
    "Georgian": "ka kat geo Georgian",
    "Canadian Aboriginal": "cr cre Cree; iu iku Inuktitut; oj oji Ojibwa",
    "Avestan": "ae ave Avestan",
    "Yi": "ii iii Sichuan Yi",
}

_LOCAL = re.compile(r"q[a-t][a-z]")
# A region or script after the code, as in pt-BR, zh_CN, nld_Latn; lower case is refused: en-nl is a pair.
_TAGGED = re.compile(r"([A-Za-z]{2,3})[-_](?:[A-Z]{2}|[A-Z][a-z]{3})")
# en2 is English a second time, beside en in one text: paraphrases, or what a second model reads.
_AGAIN = re.compile(r"([A-Za-z]{2,3})([2-9])")


@cache
def _records() -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Every accepted code -> canonical code, and canonical code -> (name, script)."""
    canonical: dict[str, str] = {}
    facts: dict[str, tuple[str, str]] = {}
    for script_name, entries in _TABLE.items():
        for entry in entries.split(";"):
            words = entry.split()
            codes = [word for word in words if word.islower()]
            facts[codes[0]] = (" ".join(words[len(codes) :]), script_name)
            for each in codes:
                if each in canonical:
                    raise AssertionError(f"language code {each} is listed twice")
                canonical[each] = codes[0]
    return canonical, facts


def is_code(text: str) -> bool:
    """Whether `code` would accept this text: `is_code("nl")` is True, `is_code("genre")` False."""
    return _lookup(text) is not None


def _lookup(text: str) -> str | None:
    again = _AGAIN.fullmatch(text)
    if again:
        found = _lookup(again.group(1))
        return None if found is None else found + again.group(2)
    tagged = _TAGGED.fullmatch(text)
    short = (tagged.group(1) if tagged else text).lower()
    if _LOCAL.fullmatch(short):
        return short
    return _records()[0].get(short)


def code(text: str) -> str:
    """The canonical short code: `code("nld")` and `code("nl")` are `"nl"`, `code("zh_CN")` is `"zh"`.

    A number behind it names the same language again: `code("eng2")` is `"en2"`, which a text can have beside `en`.
    """
    found = _lookup(text)
    if found is None:
        raise InputError(
            f"unknown language code {text!r}; expected ISO 639-1 such as 'nl' or ISO 639-3 such as 'nld' "
            "(qaa..qtz for invented languages)"
        )
    return found


def plain(text: str) -> str:
    """The code without a number behind it, for what is known of the language: `plain("en2")` is `"en"`."""
    return code(text).rstrip("23456789")


def name(text: str) -> str:
    """The English name: `name("nld")` is `"Dutch"`, `name("en2")` is `"English 2"`."""
    short = plain(text)
    found = f"Local language {short}" if _LOCAL.fullmatch(short) else _records()[1][short][0]
    return " ".join((found, *code(text)[len(short) :]))


def script(text: str) -> str:
    """The script the language is mostly written in: `script("ru")` is `"Cyrillic"`."""
    short = plain(text)
    return "Latin" if _LOCAL.fullmatch(short) else _records()[1][short][1]


def known() -> tuple[str, ...]:
    """Every canonical code, sorted."""
    return tuple(sorted(_records()[1]))
