"""Packed text for pretraining: a tokenizer for each language and its text as token ids on disk.

Packed text is a folder: `streams.json` records what it was made from, and training needs only `tokenizers/` and the
arrays beside it. So text can be packed on one machine and used for training on another without the original files.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from isogloss.errors import InputError, readable, require
from isogloss.files import clear_leftovers, whole_folder, write_text
from isogloss.progress import listening, silent
from isogloss.recipes.recipe import describe_files
from isogloss.text.readers.lines import paragraphs
from isogloss.text.sampling import hash_fraction
from isogloss.text.streams import Stream, open_stream, pack
from isogloss.text.switching import Dictionary, add_anchors
from isogloss.text.tokenizers import refuse_small, train_tokenizers
from isogloss.text.words import spans

Texts = Mapping[str, Sequence[Path]]
RECORD = "streams.json"
PIECES: dict[str, tuple[str, Any]] = {
    "sha256": ("tokenizer", None),
    "kind": ("tokenizer", "wordpiece"),
    "size": ("vocabulary", 32_000),
    "lowercase": ("lowercase", False),
}
"""Settings of the tokenizer that packed text depends on, by name in `streams.json`: the option and its default."""


@dataclass(frozen=True)
class PackedText:
    """A tokenizer, training ids and held-out ids for each language, and the facts recorded in `streams.json`."""

    tokenizers: Mapping[str, Any]
    train: Mapping[str, Stream]
    held_out: Mapping[str, Stream]
    facts: Mapping[str, Any]

    @property
    def languages(self) -> list[str]:
        """Language codes in the order given."""
        return list(self.train)


@dataclass(frozen=True, kw_only=True)
class TextSource:
    """The source of text for pretraining: files to pack, or a folder of packed text."""

    texts: Texts  # the files of each language; empty if packed text is read
    evaluate: Texts  # files of held-out text by language
    streams: Path | None  # the folder of packed text; None for a temporary folder of the run
    share: float  # share of the paragraphs held out by their hash, if `evaluate` names no files
    tokenizer: Mapping[str, Any]  # arguments of `train_tokenizers`, or {"folder": ...} for an existing tokenizer
    dictionaries: Mapping[str, Dictionary]  # for extra anchors, which replace words
    seed: int  # seed of those replacements

    @property
    def languages(self) -> list[str]:
        """Language codes in the order given, or as they were packed."""
        return list(self.texts) if self.texts else list(read_packed_facts(cast(Path, self.streams))["text"])

    def check(self, *, spaces: str, anchors: str, separate: str) -> None:
        """Refuse options that contradict each other, before any text is read."""
        if not self.texts and self.streams is None:
            raise InputError("--text is missing: give LANG=FILE for each language, or --streams with packed text")
        if self.streams is not None and self.streams.is_file():
            raise InputError(f"--streams {self.streams} is a file; name a folder for packed text")
        if not self.texts and self.evaluate:
            raise InputError("--evaluate goes with --text; packed text brings its own held-out part")
        if missing := [language for language in self.evaluate if language not in self.texts]:
            raise InputError(f"--evaluate has text of {', '.join(missing)}, which --text has not")
        languages = self.languages
        if len(languages) < 2 and (anchors != "default" or separate != "nothing"):
            raise InputError("--anchors and --separate are about what languages share; the text has one language only")
        if self.texts and anchors == "extra" and not self.dictionaries:
            raise InputError("--anchors extra needs --lexicon SOURCE-TARGET=FILE")
        if not self.texts:  # packed text has a fixed vocabulary, which languages share in a fixed way
            facts = read_packed_facts(cast(Path, self.streams))
            packed, extra = facts["tokenizer"], "extra anchors" in facts
            if len(languages) > 1 and (packed.get("spaces", "joint"), extra) != (spaces, anchors == "extra"):
                raise InputError(
                    "--streams was packed with other --vocabularies, --anchors or --separate; give the ones it was "
                    "packed with"
                )
            for name, (option, usual) in PIECES.items():
                if self.tokenizer.get(name, usual) not in (usual, packed.get(name, usual)):
                    raise InputError(
                        f"--{option} cannot change text that is packed already, in {self.streams}; leave it out, "
                        "or give --text and another --streams"
                    )
        if foreign := sorted(set(self.dictionaries) - set(languages)):
            raise InputError(f"--lexicon has words of {', '.join(foreign)}, of which there is no text")

    def facts(self) -> dict[str, Any]:
        """Facts that identify this text: the hash of every file, and the options it is packed with.

        For packed text these are the recorded facts.
        """
        if not self.texts:
            return read_packed_facts(cast(Path, self.streams))
        facts: dict[str, Any] = {"text": describe_files(self.texts), "tokenizer": dict(self.tokenizer)}
        facts["held out"] = describe_files(self.evaluate) if self.evaluate else self.share
        if self.dictionaries:
            words = json.dumps(self.dictionaries, sort_keys=True, ensure_ascii=False).encode()
            facts["extra anchors"] = {"sha256": hashlib.sha256(words).hexdigest(), "seed": self.seed}
        return facts

    def packed(self, scratch: Path, facts: Mapping[str, Any]) -> PackedText:
        """Open the packed text, packing it first if necessary; facts: from `facts`, recorded in `streams.json`."""
        if not self.texts:
            return open_packed(cast(Path, self.streams))
        folder = self.streams or scratch / "streams"
        if (folder / RECORD).is_file():
            return open_packed(folder, facts)
        clear_leftovers(folder)
        share = 0.0 if self.evaluate else self.share

        def trained_on(language: str) -> Iterator[str]:
            return paragraphs(self.texts[language], keep=lambda paragraph: hash_fraction(paragraph) >= share)

        record = json.dumps(dict(facts), indent=2, ensure_ascii=False) + "\n"
        made = folder / "tokenizers"
        if made.is_dir():
            # Packing was interrupted here; the existing files may come from other text.
            with readable(made / "made.json", "cannot be read", f"remove {made}, and the text is packed again"):
                _refuse_other(folder, json.loads((made / "made.json").read_text(encoding="utf-8")), facts)
        else:
            if "folder" in self.tokenizer:
                tokenizers = dict.fromkeys(self.texts, _read_tokenizer(Path(self.tokenizer["folder"])))
            else:
                lines = {language: partial(trained_on, language) for language in self.texts}
                tokenizers = train_tokenizers(lines, **self.tokenizer)
            joint = len({id(tokenizer) for tokenizer in tokenizers.values()}) == 1
            with whole_folder(made) as beside:
                for language, tokenizer in tokenizers.items():
                    tokenizer.save_pretrained(beside if joint else beside / language)
                write_text(beside / "made.json", record)
        tokenizers = _read_tokenizers(made, list(self.texts))

        for language, files in self.texts.items():
            parts = {"train": trained_on(language)}
            if self.dictionaries:
                how: dict[str, Any] = {"dictionaries": self.dictionaries, "seed": self.seed}
                parts["train"] = iter(add_anchors(language, parts["train"], **how))
            if language in self.evaluate:
                parts["held"] = paragraphs(self.evaluate[language])
            elif share:
                distinct = list(dict.fromkeys(files))
                parts["held"] = paragraphs(distinct, keep=lambda paragraph: hash_fraction(paragraph) < share)
            size = sum(path.stat().st_size for path in files)
            for part, text in parts.items():
                path = folder / f"{part}.{language}.npy"
                if not (path.is_file() and path.with_suffix(".json").is_file()):  # an earlier attempt may have made it
                    with nullcontext() if part == "train" else listening(silent):
                        pack(tokenizers[language], text, path, language=language, total=size)
        write_text(folder / RECORD, record)
        return open_packed(folder)


def repeat_files(texts: Texts, given: Sequence[str] | str | None) -> dict[str, list[Path]]:
    """Repeat or drop files of each language: `PATTERN=N` takes every file whose name matches N times.

    >>> repeat_files({"nl": [Path("laws.nl.txt"), Path("help.nl.txt")]}, ["help.*=2"])
    {'nl': [PosixPath('laws.nl.txt'), PosixPath('help.nl.txt'), PosixPath('help.nl.txt')]}
    """
    times = dict.fromkeys((path for files in texts.values() for path in files), 1)
    for entry in [given] if isinstance(given, str) else given or ():
        pattern, _, number = entry.rpartition("=")
        require(pattern and number.isdigit(), f"--repeat takes PATTERN=N, as in 'help.*=2', not {entry!r}")
        fitting = [path for path in times if fnmatchcase(path.name, pattern)]
        require(fitting, f"--repeat {entry}: no file of --text is named so")
        times |= dict.fromkeys(fitting, int(number))
    repeated = {language: [path for path in files for _ in range(times[path])] for language, files in texts.items()}
    if without := [language for language, files in repeated.items() if not files]:
        raise InputError(f"--repeat leaves no text of {', '.join(without)}")
    return repeated


def tokenizer_options(
    tokenizer: str, size: int, *, spaces: str, exponent: float, lowercase: bool, length: int
) -> dict[str, Any]:
    """The arguments of `train_tokenizers`, or the folder and hash of an existing tokenizer."""
    if tokenizer in ("wordpiece", "unigram"):
        refuse_small(size)
        how = {"spaces": spaces, "exponent": exponent, "lowercase": lowercase, "max_length": length}
        return {"kind": tokenizer, "size": size, **how}
    folder = Path(tokenizer)
    require(folder.is_dir(), f"--tokenizer takes wordpiece, unigram or the folder of a tokenizer, not {tokenizer!r}")
    require(spaces == "joint", "--tokenizer FOLDER is one tokenizer for all; it goes with joint vocabularies only")
    digest = hashlib.sha256()  # identifies the tokenizer even if the folder gets another one
    for path in (folder / "tokenizer.json", folder / "tokenizer_config.json"):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return {"folder": tokenizer, "sha256": digest.hexdigest()}


def open_packed(folder: Path, facts: Mapping[str, Any] | None = None) -> PackedText:
    """Open a folder of packed text; with `facts`, refuse it if it was made from other text or with other options."""
    known = read_packed_facts(folder)
    if facts is not None:
        _refuse_other(folder, known, facts)
    languages = list(known["text"])
    train = {language: open_stream(folder / f"train.{language}.npy") for language in languages}
    paths = {language: folder / f"held.{language}.npy" for language in languages}
    held = {language: open_stream(path) for language, path in paths.items() if path.is_file()}
    return PackedText(_read_tokenizers(folder / "tokenizers", languages), train, held, known)


def read_packed_facts(folder: Path) -> dict[str, Any]:
    """The facts about packed text that `streams.json` records."""
    path = folder / RECORD
    require(path.is_file(), f"{folder} holds no packed text: it has no streams.json; give --text to make it")
    with readable(path, "cannot be read", "pack the text again"):
        facts = dict(json.loads(path.read_text(encoding="utf-8")))
    require({"text", "tokenizer"} <= set(facts), f"{path} does not say which text was packed; pack the text again")
    return facts


def word_starts(tokenizer: Any) -> torch.Tensor:
    """Whether each token begins a word, (vocabulary,) bool; false for `##` and, with `▁`, for letters without it.

    Ideographs always begin a word: Chinese has no spaces, and a whole clause would otherwise be masked as one word.
    """
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    spaced = any(piece.startswith("▁") for piece in pieces)
    if not spaced and not any(piece.startswith("##") for piece in pieces):
        raise InputError("--whole-words needs a tokenizer whose pieces show where words begin, by ▁ or ##")

    # With `▁`, a token that begins with a letter or a combining mark continues the word before it.
    letters = {piece[:1] for piece in pieces if spaced and not piece[:1].isdigit()}
    continuing = {letter for letter in letters if spans(f"a{letter}", "en") == [(0, 2)]}
    return ~torch.tensor([piece.startswith("##") or piece[:1] in continuing for piece in pieces])


def _refuse_other(folder: Path, known: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    if known != json.loads(json.dumps(dict(facts))):
        raise InputError(f"{folder} was packed from other text or with other options; choose another --streams")


def _read_tokenizers(folder: Path, languages: Sequence[str]) -> dict[str, Any]:
    """The tokenizer of each language from its subfolder, or one joint tokenizer."""
    folders = {language: folder / language if (folder / language).is_dir() else folder for language in languages}
    tokenizers = {path: _read_tokenizer(path) for path in dict.fromkeys(folders.values())}
    return {language: tokenizers[folders[language]] for language in languages}


def _read_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    require(any(folder.glob("*.json")), f"{folder} holds no tokenizer that can be read: it has no tokenizer.json")
    with readable(folder, "holds no tokenizer that can be read", "save it again"):
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
