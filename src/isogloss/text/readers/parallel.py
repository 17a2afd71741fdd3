"""Parallel text: read into memory as bitexts, or streamed as pairs of translations, from files of any size.

`read_bitexts` accepts:

| given | read as |
|---|---|
| several files | line-aligned, one for each language |
| several `.conllu` files | parallel treebanks, rows joined by `sent_id`, words = the treebank's |
| one file with ` ||| ` in its first line | the sides of each line |
| one other file | a tab-separated table, with a header of languages or languages in its name |
| a folder | several bitexts, see below |
| `hf:owner/name` | a data set of the Hugging Face hub, see below |

Rows with an empty side are left out on every side and counted in `Bitext.dropped`.

A folder has Tatoeba's pairs, pair tables, line-aligned sets or treebanks. The first row of this table with files in the
folder determines its layout:

| files in the folder | bitexts |
|---|---|
| `tatoeba.nld-eng.nld`, `tatoeba.nld-eng.eng` | one per language, English first |
| `en-nl.tsv`, `qgis.en-nl.tsv` | one per file |
| `train.en.gz`, `train.de.gz`, `val.en.gz` ... | one per stem, with all its languages |
| `en_pud-ud-test.conllu`, `nl_pud-ud-test.conllu` | one of all treebanks |
| `talks.tsv` with a header of languages | one per file |
| `talk.en.txt`, `talk.nl.txt`; `en.txt`, `nl.txt` | one per stem, with all its languages |

A data set of the hub is `hf:owner/name`, `hf:owner/name@split`, or a folder saved to disk. Three layouts are supported:
one configuration per pair of languages (`nld-eng`) with columns `sentence1` and `sentence2`; a column `translation`
with one text per language; columns named after languages. Only this module imports the package `datasets`.

`find_pairs` streams from disk. It takes the entries of an option such as --train:

| given | read as |
|---|---|
| `en-nl=en.txt,nl.txt` | two line-aligned files |
| `en-nl=table.tsv` | two columns of a table, by its header, its name or their order; or `a ||| b` lines |
| `table.en-de-nl.tsv` | every language of a table with English, or with its first language |
| a folder, or the name of a data set | its tables, line-aligned sets or Tatoeba files, by their names |
"""

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from isogloss.errors import InputError, require
from isogloss.text.catalog import resolve
from isogloss.text.corpora import Bitext, Corpus, complete_rows, letters
from isogloss.text.languages import checked_codes, code, is_code, plain
from isogloss.text.readers import lines
from isogloss.text.readers.conll import read_treebank, read_treebanks
from isogloss.text.readers.dictionaries import attach_links
from isogloss.text.readers.lines import ParallelTable, Source, file_path, is_treebank, pick_languages, plain_name
from isogloss.text.sampling import hash_fraction

Pair = tuple[str, str]
LinkFiles = Source | Mapping[Pair, Source]
Given = str | Path | Bitext | Mapping[str, Any] | Sequence[Any]
_SPLITS = ("test", "validation", "dev", "train")


def read_corpus(path: Source, language: str) -> Corpus:
    """Read sentences of one language: one per line, a treebank, or the language's column of a table with a header.

    Blank lines and empty cells are skipped.

    Args:
        path: the file.
        language: a language code of any known standard.
    """
    short, file = code(language), file_path(path)
    if is_treebank(file):
        return read_treebank(file, short)
    is_table = lines.header_languages(file)
    text = lines.open_table(file).read((short,))[0] if is_table else lines.read_lines(file)
    sentences = [line for line in text if line and not line.isspace()]
    require(sentences, f"{file} has only blank lines; text was expected")
    return Corpus(short, sentences, name=file.name)


def joined_corpus(language: str, files: Sequence[Path]) -> Corpus:
    """Read the sentences of files as one corpus, named after its file, or after its language if there are several."""
    read = [read_corpus(path, language) for path in files]
    sentences = [sentence for corpus in read for sentence in corpus]
    return Corpus(language, sentences, name=read[0].name if len(read) == 1 else language)


def read_bitexts(
    *paths: Source, languages: Sequence[str] | None = None, links: LinkFiles | None = None
) -> list[Bitext]:
    """Read every bitext of the paths: one, or several from a folder or the hub. See the first table above.

    Args:
        paths: the files, the folder or the data set.
        languages: the files' languages, or the columns of a table to read, in this order.
        links: a Pharaoh file of word links for the two languages in that order, or a file for each pair; words are then
            separated by spaces, as in such files, unless the text has its own words.
    """
    wanted = checked_codes(languages)
    require(paths, "no bitext was given; name one file per language, a table or a folder")
    first = str(paths[0])
    on_hub = first.startswith(lines.HUB)
    if on_hub or Path(first).is_dir():
        require(len(paths) <= 1 and links is None, f"{first} holds several bitexts; give it alone and without links")
        return read_hub(first, wanted) if on_hub else read_folder(Path(first), wanted)
    return [_read(_open_text(paths, wanted), wanted if len(paths) == 1 else None, links)]


def _open_text(paths: Sequence[Source], languages: Sequence[str] | None) -> ParallelTable:
    """Open one table, or one file per language; if `languages` is None, they are taken from the files' names."""
    files = tuple(file_path(path) for path in paths)
    if len(files) == 1 and not is_treebank(files[0]):
        return lines.open_table(files[0], languages)
    by_name = [lines.language_of(file) for file in files]
    named = languages or by_name
    counts = f"{len(files)} files but {len(named)} language{'s' * (len(named) != 1)} ({', '.join(languages or ())})"
    require(len(named) == len(files), f"{counts}: give one language per file")
    unclear = ", ".join(file.name for file, language in zip(files, named, strict=True) if language is None)
    require(not unclear, f"the language of {unclear} does not show in the name; give the languages, such as en,nl")
    if None not in by_name and by_name != list(named) and {*by_name} == {*named}:  # same languages, wrong order
        raise InputError(
            f"{', '.join(map(str, files))}: by their names these are {', '.join(map(str, by_name))}, and they "
            f"were given as {', '.join(map(str, named))}; change the order of the files or of the languages"
        )
    return ParallelTable(files, tuple(named), " ".join(file.name for file in files))


def read_bitext(*paths: Source, languages: Sequence[str] | None = None, links: LinkFiles | None = None) -> Bitext:
    """Read the only bitext of the paths; a folder with several is an InputError. See `read_bitexts`.

    `en, nl = read_bitext("en.txt", "nl.txt", languages=("en", "nl"))`
    """
    bitexts = read_bitexts(*paths, languages=languages, links=links)
    if len(bitexts) > 1:
        names = ", ".join(bitext.name for bitext in bitexts[:6])
        raise InputError(f"{paths[0]} holds {len(bitexts)} bitexts ({names} ...); choose languages, or name one file")
    return bitexts[0]


def _read(text: ParallelTable, languages: Sequence[str] | None = None, links: LinkFiles | None = None) -> Bitext:
    """Read the rows that have text in every one of these languages, by default in all languages of the files."""
    if is_treebank(text.files[0]):
        chosen = languages or text.languages
        bitext = replace(read_treebanks([text.file_of(each) for each in chosen], chosen), name=text.name)
    else:
        bitext = Bitext(tuple(text.read(languages)), name=text.name)
    if links is not None:
        if not isinstance(links, Mapping):
            if len(bitext.languages) != 2:
                raise InputError(f"{links}: a file of links is for two languages, but here are {len(bitext.languages)}")
            links = {(bitext.languages[0], bitext.languages[1]): links}
        # Links refer to the file's rows, so they are attached before rows with an empty side are left out.
        corpora = []
        for corpus in bitext:
            split = [[word.span() for word in re.finditer(r"\S+", text)] for text in corpus]
            corpora.append(replace(corpus, words=corpus.words or split))
        bitext = replace(bitext, corpora=tuple(corpora))
        for pair, path in links.items():
            bitext = attach_links(bitext, pair, path)
    return complete_rows(bitext)


def parallel_texts(folder: Path) -> tuple[str, list[ParallelTable]]:
    """The layout and the parallel texts of a folder, see the second table above; raises an InputError without any."""
    for kind, texts in _layouts(folder):
        if texts:
            return kind, texts
    raise InputError(
        f"{folder} holds no parallel text by the names of its files; expected tatoeba.xxx-eng.xxx, en-nl.tsv, "
        "train.en and train.nl, en.txt and nl.txt, or en_*.conllu; name the files one by one instead"
    )


def _layouts(folder: Path) -> Iterator[tuple[str, list[ParallelTable]]]:
    """The texts of a folder in each layout, one layout after the other."""
    paths = [path for path in sorted(folder.iterdir()) if path.is_file()]
    tatoeba = []
    for path in paths:
        match = re.fullmatch(r"tatoeba\.([a-z]{3})-eng\.\1", plain_name(path))
        if match and is_code(match[1]):
            english = path.with_name(path.name.replace(f"-eng.{match[1]}", "-eng.eng"))
            language = code(match[1])
            tatoeba.append(ParallelTable((english, path), ("en", language), f"tatoeba.en-{language}"))
    yield "tatoeba", tatoeba
    tables = [path for path in paths if plain_name(path).endswith(".tsv")]
    yield "table", [lines.open_table(path) for path in tables if lines.languages_of(path)]
    yield "aligned files", lines.aligned_sets(folder)
    named = {path: lines.language_of(path) for path in paths if is_treebank(path)}
    banks = {path: language for path, language in named.items() if language}
    yield "treebanks", [ParallelTable(tuple(banks), tuple(banks.values()), folder.name)] if banks else []
    yield "table", [lines.open_table(path) for path in tables if len(lines.header_languages(path)) > 1]
    yield "aligned files", lines.aligned_sets(folder, ending=".txt")


def read_folder(folder: Path, languages: Sequence[str] | None) -> list[Bitext]:
    """Read every bitext of a folder that has the chosen languages; see the second table above."""
    kind, texts = parallel_texts(folder)
    if kind == "tatoeba":  # pairs of English, which need not be chosen, and another language
        pairs = {pair.languages[1]: pair for pair in sorted(texts, key=lambda pair: pair.languages)}
        chosen = list(pairs) if languages is None else [each for each in languages if each != "en"]
        missing = [each for each in chosen if each not in pairs] if chosen else ["en"]
        require(not missing, f"{folder} has no pair with English for {', '.join(missing)}; it has {', '.join(pairs)}")
        return [_read(pairs[each]) for each in chosen]
    if kind == "treebanks":
        codes = texts[0].languages
        chosen = pick_languages(languages, list(dict.fromkeys(codes)), where=folder)
        for language in chosen:
            files = [file.name for file, each in zip(texts[0].files, codes, strict=True) if each == language]
            several = f"{folder} has several treebanks of {language} ({', '.join(files)})"
            require(len(files) == 1, f"{several}; name the files one by one")
        return [_read(texts[0], chosen)]
    # A text fits a choice of languages if it has all of them, or if all its languages were chosen.
    choice = set(languages or ())
    fitting = [each for each in texts if not choice or choice <= {*each.languages} or choice >= {*each.languages}]
    available = ", ".join("-".join(each.languages) for each in texts)
    require(fitting, f"{folder} has no {kind} of {', '.join(languages or ())}; it has {available}")
    shared = [None if languages is None else [each for each in languages if each in text.languages] for text in fitting]
    return list(map(_read, fitting, shared))


def read_hub(spec: str, languages: Sequence[str] | None) -> list[Bitext]:
    """Read the bitexts of a hub data set with the chosen languages; English need not be chosen."""
    name, _, split = spec.removeprefix(lines.HUB).partition("@")
    try:
        package: Any = importlib.import_module("datasets")
    except ImportError as error:
        raise InputError(
            "reading hf: data sets needs the package datasets; install it with: pip install 'isogloss[datasets]'"
        ) from error
    try:
        if Path(name).is_dir():
            saved = package.load_from_disk(name)
            data = saved[_hub_split(saved.keys(), spec, split)] if hasattr(saved, "keys") else saved
            return list(_hub_bitexts(data, "", spec, languages))
        configs = package.get_dataset_config_names(name)
        pairs = {config: pair for config in configs if (pair := _config_pair(config))}
        fitting = [config for config, pair in pairs.items() if _is_allowed(pair, languages)]
        available = ", ".join("-".join(pair) for pair in pairs.values())
        require(fitting or not pairs, f"{spec} has no pair of {', '.join(languages or ())}; it has {available}")
        bitexts: list[Bitext] = []
        for config in fitting or configs[:1]:
            splits = package.get_dataset_split_names(name, config)
            data = package.load_dataset(name, config, split=_hub_split(splits, spec, split))
            bitexts += _hub_bitexts(data, config, spec, languages)
        return bitexts
    except InputError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{spec} cannot be loaded: {error}") from error


def _hub_split(splits: Iterable[str], spec: str, wanted: str) -> str:
    available = list(splits)
    require(not wanted or wanted in available, f"{spec}: there is no split {wanted!r}; there is {', '.join(available)}")
    return wanted or next((each for each in _SPLITS if each in available), available[0])


def _config_pair(text: str) -> Pair | None:
    """The two languages in a configuration's name: `nld-eng`, `en_nl`."""
    parts = re.split(r"[-_]", text)
    return (code(parts[0]), code(parts[1])) if len(parts) == 2 and all(map(is_code, parts)) else None


def _is_allowed(pair: Pair, languages: Sequence[str] | None) -> bool:
    """Whether both languages were chosen; English need not be."""
    return languages is None or set(pair) <= {*languages, "en"}


def _hub_bitexts(data: Any, config: str, spec: str, languages: Sequence[str] | None) -> Iterator[Bitext]:
    """The bitexts of one table of a data set: one for each pair in its configuration or column `lang`."""
    columns = list(data.column_names)
    named = lines.header(columns)
    if {"sentence1", "sentence2"} <= {*columns}:
        names = data["lang"] if "lang" in columns else [config] * len(data["sentence1"])
        groups: dict[Pair, list[Pair]] = {}
        for name, first, second in zip(names, data["sentence1"], data["sentence2"], strict=True):
            pair = _config_pair(name) or _config_pair(config)
            if pair is None:
                raise InputError(f"{spec}: no configuration or column lang names its two languages ({name!r})")
            groups.setdefault(pair, []).append((first, second))
        for pair, texts in groups.items():
            if _is_allowed(pair, languages):
                # The caller's order if it names both, otherwise English first, as everywhere.
                chosen = [each for each in languages or () if each in pair]
                order = chosen if len(chosen) == 2 else sorted(pair, key=lambda each: each != "en")
                sides = dict(zip(pair, zip(*texts, strict=True), strict=True))
                yield _hub_bitext(sides, f"{spec}:{'-'.join(pair)}", order)
    elif "translation" in columns:
        rows = list(data["translation"])
        yield _hub_bitext({code(each): [row[each] for row in rows] for each in rows[0]}, spec, languages)
    elif named is not None:
        sides = {each: data[column] for each, column in zip(named, columns, strict=True) if each}
        yield _hub_bitext(sides, spec, languages)
    else:
        raise InputError(
            f"{spec} has the columns {', '.join(columns)}; expected sentence1 and sentence2, translation, or "
            "columns named after languages"
        )


def _hub_bitext(sides: Mapping[str, Iterable[str]], name: str, languages: Sequence[str] | None) -> Bitext:
    chosen = pick_languages(languages, list(sides), where=name)
    return complete_rows(Bitext(tuple(Corpus(each, list(sides[each]), name=name) for each in chosen), name=name))


@dataclass(frozen=True)
class PairSource:
    """The source of pairs of two languages: `open()` reads them from the beginning, in order.

    files: the files read, empty for a `Bitext` in memory, whose fingerprint is `mark`.
    """

    languages: Pair
    name: str
    open: Callable[[], Iterator[Pair]]
    files: tuple[Path, ...] = ()
    mark: str = ""

    @property
    def title(self) -> str:
        """The languages as a string, such as `en-nl`."""
        return "-".join(self.languages)


def find_pairs(given: Given, *, option: str = "train") -> list[PairSource]:
    """Find the sources of pairs for the entries of an option, see the last table above.

    Args:
        given: an entry, entries, files by their languages, or a `Bitext`.
        option: the name of the option, for messages.

    >>> find_pairs({"en-nl": ("en.txt", "nl.txt")})[0].title  # doctest: +SKIP
    'en-nl'
    """
    entries: Sequence[Any]
    if isinstance(given, Mapping):
        listed = ((key, [files] if isinstance(files, str | Path) else files) for key, files in given.items())
        entries = [f"{languages}={','.join(map(str, files))}" for languages, files in listed]
    else:
        entries = [given] if isinstance(given, str | Path | Bitext) else given
    sources: list[PairSource] = []
    for entry in entries:
        languages, equals, names = str(entry).partition("=")
        if isinstance(entry, Bitext):
            sources += _pair_sources(entry, None, option)
        elif equals:
            named = tuple(code(each.strip()) for each in languages.split("-"))
            paths = [each.strip() for each in names.split(",") if each.strip()]
            forms = "takes SOURCE-TARGET=FILE,FILE, SOURCE-TARGET=TABLE, a table or a folder, not"
            require(len(named) == 2 and len(paths) in (1, 2), f"--{option} {forms} {str(entry)!r}")
            if named[0] == named[1]:
                raise InputError(f"--{option} {entry}: {named[0]} is named twice; alignment needs two languages")
            sources += _pair_sources(_open_text(paths, named), (named[0], named[1]), option)
        else:
            path = Path(resolve(str(entry)))
            for text in parallel_texts(path)[1] if path.is_dir() else [lines.open_table(path)]:
                sources += _pair_sources(text, None, option)
    require(sources, f"--{option} is missing: give SOURCE-TARGET=FILE,FILE, a table or a folder of parallel text")
    return sources


def _pair_sources(text: ParallelTable | Bitext, wanted: Pair | None, option: str) -> Iterator[PairSource]:
    """The pairs of two languages, or of English (or the first language) and each other one."""
    if isinstance(text, ParallelTable) and is_treebank(text.files[0]):
        text = _read(text)
    where = text.name or "the bitext" if isinstance(text, Bitext) else text.files[0]
    languages = pick_languages(wanted, text.languages, where=where)
    if len(languages) < 2:
        raise InputError(f"--{option} {where} has one language only, {', '.join(languages)}; alignment needs two")
    centre = "en" if "en" in languages and not wanted else languages[0]
    for pair in ((centre, other) for other in languages if other != centre):
        if isinstance(text, Bitext):
            sides = (text[language].sentences for language in pair)
            name = text.name or "-".join(pair)
            yield PairSource(pair, name, partial(zip, *sides, strict=True), mark=text.fingerprint)
        else:
            files = tuple(dict.fromkeys(map(text.file_of, pair)))
            name = " ".join(file.name for file in files)
            yield PairSource(pair, name, partial(_table_pairs, text, pair), files)


def _table_pairs(table: ParallelTable, languages: Pair) -> Iterator[Pair]:
    for _, (source, target) in table.rows(languages):
        yield source, target


def paraphrases(bitexts: Iterable[Bitext], language: str = "en") -> Bitext:
    """A bitext of `language` and itself (`en` and `en2`): different sentences that share a translation in some bitext.

    Conneau, Wu et al. (2020) compare English with English by a text and its back-translation through French. Without a
    translation model, a bitext itself contains such pairs: "I am tired." and "I'm exhausted." may both be paired with
    "Je suis fatigué.". These are looser than back-translations, of which each has one source.

    Sentences that differ only in case, spaces and punctuation count as the same, and each is in at most one pair. Pairs
    are in the order of the texts; which sentence of a pair comes first is decided by a hash of both, independent of the
    order of a sorted file. The same texts always give the same pairs.

    Args:
        bitexts: texts that all have `language` among their sides.
        language: the language whose sentences are paired.

    >>> french = Corpus("fr", ["C'est tard.", "C'est tard.", "Oui."])
    >>> pairs = paraphrases([Bitext((Corpus("en", ["It is late.", "It's late!", "Yes."]), french))])
    >>> sorted(corpus.sentences[0] for corpus in pairs), pairs.languages
    (['It is late.', "It's late!"], ('en', 'en2'))
    """
    short = plain(language)
    groups: dict[tuple[str, str], list[str]] = {}
    for bitext in bitexts:
        for other in bitext:
            if other.language != short:
                for sentence, translation in zip(bitext[short], other, strict=True):
                    groups.setdefault((other.language, translation), []).append(sentence)
    used: set[str] = set()
    pairs: list[tuple[str, str]] = []
    for sentences in groups.values():
        waiting = ""
        for sentence in sentences:
            if (key := letters(sentence)) in used or not key:
                continue
            if not waiting:
                waiting = sentence
            elif key != letters(waiting):
                used |= {key, letters(waiting)}
                in_order = hash_fraction(f"{waiting}\n{sentence}") < 0.5
                pairs.append((waiting, sentence) if in_order else (sentence, waiting))
                waiting = ""
    require(pairs, f"no two sentences of {short} share a translation in the texts given; give larger ones")
    first, second = map(list, zip(*pairs, strict=True))
    return Bitext((Corpus(short, first), Corpus(f"{short}2", second)), name=f"paraphrases.{short}")
