"""Where the text of a pretraining comes from, and how its languages share pieces."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.recipes.recipe import describe_files, one_of
from isogloss.recipes.steps.texts import Packed, Texts, open_packed, pack_texts, read_packed_facts
from isogloss.text.switching import LanguageDictionary, add_anchors
from isogloss.text.tokenizers import refuse_small
from isogloss.training.sharing import Sharing

PIECES = {
    "sha256": ("tokenizer", None), "kind": ("tokenizer", "wordpiece"), "size": ("vocabulary", 32_000),
    "lowercase": ("lowercase", False),
}  # fmt: skip
"""What decides the pieces of a text, by its name in `streams.json`: the option, and its usual value."""


@dataclass(frozen=True)
class Source:
    """Where the text comes from: files that are packed, or a folder of packed text."""

    texts: Texts
    evaluate: Texts
    streams: Path | None
    held: float
    tokenizer: Mapping[str, Any]
    dictionaries: Mapping[str, LanguageDictionary]
    seed: int

    @property
    def languages(self) -> list[str]:
        """Language codes in the order given, or as they were packed."""
        return list(self.texts) if self.texts else list(read_packed_facts(cast(Path, self.streams))["text"])

    def check(self, *, spaces: str, anchors: str, separate: str) -> None:
        """Refuse options that do not go together, before a byte of the text is read."""
        if not self.texts and self.streams is None:
            raise InputError("--text is missing: give LANG=FILE for each language, or --streams with packed text")
        if self.streams is not None and self.streams.is_file():
            raise InputError(f"--streams {self.streams} is a file; name a folder for packed text")
        if not self.texts and self.evaluate:
            raise InputError("--evaluate goes with --text; packed text brings its own held-out part")
        missing = [one for one in self.evaluate if one not in self.texts]
        if missing:
            raise InputError(f"--evaluate has text of {', '.join(missing)}, which --text has not")
        languages = self.languages
        if len(languages) < 2 and (anchors != "default" or separate != "nothing"):
            raise InputError("--anchors and --separate are about what languages share; the text has one language only")
        if not self.texts:
            facts = read_packed_facts(cast(Path, self.streams))
            _agree(facts, spaces, anchors)
            self._refuse_other_pieces(facts["tokenizer"])
        elif anchors == "extra" and not self.dictionaries:
            raise InputError("--anchors extra needs --lexicon SOURCE-TARGET=FILE")
        foreign = sorted(set(self.dictionaries) - set(languages))
        if foreign:
            raise InputError(f"--lexicon has words of {', '.join(foreign)}, of which there is no text")

    def _refuse_other_pieces(self, packed: Mapping[str, Any]) -> None:
        """Refuse options that made no difference: the pieces of packed text are decided."""
        for name, (option, usual) in PIECES.items():
            asked = self.tokenizer.get(name, usual)
            if asked not in (usual, packed.get(name, usual)):
                raise InputError(
                    f"--{option} cannot change text that is packed already, in {self.streams}; leave it out, "
                    "or give --text and another --streams"
                )

    def facts(self, progress: Progress = silent) -> dict[str, Any]:
        """What tells this text from any other: hashes of every file, and the options it is packed with.

        Packed text brings its own.
        """
        if not self.texts:
            return read_packed_facts(cast(Path, self.streams))
        facts: dict[str, Any] = {"text": describe_files(self.texts, progress), "tokenizer": dict(self.tokenizer)}
        facts["held out"] = describe_files(self.evaluate, progress) if self.evaluate else self.held
        if self.dictionaries:
            words = json.dumps(self.dictionaries, sort_keys=True, ensure_ascii=False).encode()
            facts["extra anchors"] = {"sha256": hashlib.sha256(words).hexdigest(), "seed": self.seed}
        return facts

    def packed(self, scratch: Path, facts: Mapping[str, Any], progress: Progress) -> Packed:
        """The packed text, made if it is not there yet."""
        if not self.texts:
            return open_packed(cast(Path, self.streams))
        change = partial(add_anchors, dictionaries=self.dictionaries, seed=self.seed)
        return pack_texts(
            self.texts,
            self.streams or scratch / "streams",
            facts=facts,
            held=self.held,
            evaluate=self.evaluate,
            tokenizer=self.tokenizer,
            change=change if self.dictionaries else lambda _, lines: lines,
            progress=progress,
        )


def piece_spaces(vocabularies: str, anchors: str, sharing: Sharing) -> str:
    """How pieces are shared between languages, in the words of `train_tokenizers`."""
    one_of("vocabularies", vocabularies, ("joint", "separate"))
    if one_of("anchors", anchors, ("default", "none", "extra")) == "extra" and (
        vocabularies == "separate" or not sharing.embeddings
    ):
        raise InputError("--anchors extra puts words of one language into another, so they need one joint vocabulary")
    if not sharing.embeddings:
        return "own"
    if anchors == "none":
        return "prefix"
    return "joint" if vocabularies == "joint" else "union"


def tokenizer_options(
    tokenizer: str, size: int, *, spaces: str, exponent: float, lowercase: bool, length: int
) -> dict[str, Any]:
    """The arguments of `train_tokenizers`, or the folder of a tokenizer that exists."""
    if tokenizer in ("wordpiece", "unigram"):
        refuse_small(size)
        return {"kind": tokenizer, "size": size, "spaces": spaces, "exponent": exponent, "lowercase": lowercase,
                "max_length": length}  # fmt: skip
    if not Path(tokenizer).is_dir():
        raise InputError(f"--tokenizer takes wordpiece, unigram or the folder of a tokenizer, not {tokenizer!r}")
    if spaces != "joint":
        raise InputError("--tokenizer FOLDER is one tokenizer for all; it goes with joint vocabularies only")
    return {"folder": tokenizer, "sha256": _hash_of(Path(tokenizer))}


def _hash_of(tokenizer: Path) -> str:
    """What tells a tokenizer from another at the same place: its pieces and its settings."""
    digest = hashlib.sha256()
    for path in (tokenizer / "tokenizer.json", tokenizer / "tokenizer_config.json"):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def _agree(facts: Mapping[str, Any], spaces: str, anchors: str) -> None:
    """Refuse packed text whose pieces are shared otherwise than the options say: ids would mean other pieces."""
    packed = facts["tokenizer"].get("spaces", "joint")
    if len(facts["text"]) > 1 and (packed != spaces or ("extra anchors" in facts) != (anchors == "extra")):
        raise InputError(
            "--streams was packed with other --vocabularies, --anchors or --separate; give the ones it was packed with"
        )
