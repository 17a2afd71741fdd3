"""Text for pretraining: which files a language has, its tokenizer, and its text packed into token ids.

Packed text is a folder of its own: `streams.json` says what it was made from, `tokenizers/` and the arrays beside it
are all that training needs. So text can be packed on one machine and trained on another that never sees it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import torch

from isogloss.errors import InputError
from isogloss.files import clear_leftovers, whole_folder, write_text
from isogloss.progress import Progress, silent
from isogloss.text.batches import marks
from isogloss.text.sampling import held_out
from isogloss.text.streams import Stream, open_stream, pack, paragraphs
from isogloss.text.tokenizers import train_tokenizers
from isogloss.text.words import spans

Texts = Mapping[str, Sequence[Path]]
Given = str | Path | Sequence[str] | Mapping[str, Any]
Change = Callable[[str, Iterable[str]], Iterable[str]]


@dataclass(frozen=True)
class Packed:
    """What training reads: a tokenizer, training ids and held-out ids for each language, and what they came from."""

    tokenizers: Mapping[str, Any]
    train: Mapping[str, Stream]
    held: Mapping[str, Stream]
    facts: Mapping[str, Any]

    @property
    def languages(self) -> list[str]:
        """Language codes in the order given."""
        return list(self.train)


def repeat_files(texts: Texts, given: Sequence[str]) -> dict[str, list[Path]]:
    """The same files, some of them several times or not at all: `PATTERN=N` for every file whose name fits.

    >>> repeat_files({"nl": [Path("laws.nl.txt"), Path("help.nl.txt")]}, ["help.*=2"])
    {'nl': [PosixPath('laws.nl.txt'), PosixPath('help.nl.txt'), PosixPath('help.nl.txt')]}
    """
    times = dict.fromkeys((path for files in texts.values() for path in files), 1)
    for entry in given:
        pattern, _, number = entry.rpartition("=")
        if not (pattern and number.isdigit()):
            raise InputError(f"--repeat takes PATTERN=N, as in 'help.*=2', not {entry!r}")
        fitting = [path for path in times if fnmatchcase(path.name, pattern)]
        if not fitting:
            raise InputError(f"--repeat {entry}: no file of --text is named so")
        times |= dict.fromkeys(fitting, int(number))
    repeated = {language: [path for path in files for _ in range(times[path])] for language, files in texts.items()}
    without = [language for language, files in repeated.items() if not files]
    if without:
        raise InputError(f"--repeat leaves no text of {', '.join(without)}")
    return repeated


def pack_texts(
    texts: Texts,
    folder: Path,
    *,
    facts: Mapping[str, Any],
    held: float,
    evaluate: Texts,
    tokenizer: Mapping[str, Any],
    change: Change = lambda _, lines: lines,
    progress: Progress = silent,
) -> Packed:
    """Train the tokenizers and pack the text into `folder`, or go on with what is there.

    facts: what tells this packed text from any other, kept in `streams.json`. held: share of the paragraphs, by their
    hash, set aside for evaluation, unless `evaluate` names files for it. tokenizer: arguments of `train_tokenizers`,
    or {"folder": ...} for one that exists. change(language, paragraphs): what is done to training text first.
    """
    if (folder / "streams.json").is_file():
        return open_packed(folder, facts)
    clear_leftovers(folder)
    share = 0.0 if evaluate else held

    def lines(language: str) -> Iterator[str]:
        return paragraphs(texts[language], keep=lambda one: not held_out(one, share))

    def aside(language: str) -> Iterator[str]:
        if evaluate:
            return paragraphs(evaluate[language])
        return paragraphs(list(dict.fromkeys(texts[language])), keep=lambda one: held_out(one, share))

    tokenizers = _tokenizers(list(texts), lines, folder / "tokenizers", tokenizer, facts, progress)
    for language in texts:
        sides = [("train", change(language, lines(language)))]
        sides += [("held", aside(language))] if share or language in evaluate else []
        for side, text in sides:
            path = folder / f"{side}.{language}.npy"
            if not (path.is_file() and path.with_suffix(".json").is_file()):
                told = progress if side == "train" else _aside(progress)
                files = texts[language] if side == "train" else evaluate.get(language, texts[language])
                part = 1.0 if side == "train" or evaluate else share
                total = round(part * sum(one.stat().st_size for one in files))
                pack(tokenizers[language], text, path, language=language, total=total, progress=told)
    write_text(folder / "streams.json", json.dumps(dict(facts), indent=2, ensure_ascii=False) + "\n")
    return open_packed(folder)


def open_packed(folder: Path, facts: Mapping[str, Any] | None = None) -> Packed:
    """What `pack_texts` left; with `facts`, only if it was made from the same text in the same way."""
    known = read_packed_facts(folder)
    if facts is not None:
        _refuse_other(folder, known, facts)
    languages = list(known["text"])
    train = {one: open_stream(folder / f"train.{one}.npy") for one in languages}
    held = {one: open_stream(at) for one in languages if (at := folder / f"held.{one}.npy").is_file()}
    return Packed(_read_tokenizers(folder / "tokenizers", languages), train, held, known)


def read_packed_facts(folder: Path) -> dict[str, Any]:
    """What `streams.json` says the packed text was made from."""
    path = folder / "streams.json"
    if not path.is_file():
        raise InputError(f"{folder} holds no packed text: it has no streams.json; give --text to make it")
    try:
        facts = dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error}; pack the text again") from error
    if not {"text", "tokenizer"} <= set(facts):
        raise InputError(f"{path} does not say which text was packed; pack the text again")
    return facts


def masking_words(packed: Packed) -> dict[str, Any]:
    """The mask's id, the special ids, and the ids random words are drawn from; tokenizers of one run agree on marks."""
    first = packed.tokenizers[packed.languages[0]]
    if first.mask_token_id is None:
        raise InputError("--tokenizer has no mask token, which masked-language modelling needs")
    special = sorted({*marks(first), first.mask_token_id, first.unk_token_id} - {None})
    pools = {}
    for language, tokenizer in packed.tokenizers.items():
        content = torch.ones(len(tokenizer), dtype=torch.bool)
        content[special] = False
        pools[language] = content.nonzero().squeeze(1)
    return {"mask_id": first.mask_token_id, "marks": special, "pools": pools}


def word_starts(tokenizer: Any) -> torch.Tensor:
    """Which pieces begin a word, (vocabulary,) bool: all but those that go on after `##`, or letters without `▁`.

    An ideograph begins a word always: Chinese has no spaces, and a whole clause would be masked as one word.
    """
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    spaced = any(one.startswith("▁") for one in pieces)
    if not spaced and not any(one.startswith("##") for one in pieces):
        raise InputError("--whole-words needs a tokenizer whose pieces show where words begin, by ▁ or ##")
    goes_on = [one.startswith("##") or (spaced and _grows_on(one[:1])) for one in pieces]
    return ~torch.tensor(goes_on)


def _aside(progress: Progress) -> Progress:
    return lambda stage, done, total: progress(stage if done == total else f"{stage}: held out", done, total)


def _grows_on(character: str) -> bool:
    """Whether a letter or a mark on one belongs to the word before it."""
    return not character.isdigit() and spans(f"a{character}", "en") == [(0, 2)]


def _tokenizers(
    languages: list[str],
    lines: Callable[[str], Iterator[str]],
    folder: Path,
    options: Mapping[str, Any],
    facts: Mapping[str, Any],
    progress: Progress,
) -> dict[str, Any]:
    """The tokenizers in `folder`, made now if they are not there; `made.json` there says of which text."""
    if folder.is_dir():
        # Packing was begun here and not finished: what there is may be of other text.
        _refuse_other(folder.parent, json.loads((folder / "made.json").read_text(encoding="utf-8")), facts)
    else:
        if "folder" in options:
            found = dict.fromkeys(languages, _read_tokenizer(Path(options["folder"])))
        else:
            texts = {one: partial(lines, one) for one in languages}
            found = train_tokenizers(texts, progress=progress, **options)
        joint = len({id(one) for one in found.values()}) == 1
        with whole_folder(folder) as beside:
            for language, tokenizer in found.items():
                tokenizer.save_pretrained(beside if joint else beside / language)
            write_text(beside / "made.json", json.dumps(dict(facts), indent=2, ensure_ascii=False) + "\n")
    return _read_tokenizers(folder, languages)


def _refuse_other(folder: Path, known: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    if known != json.loads(json.dumps(dict(facts))):
        raise InputError(f"{folder} was packed from other text or with other options; choose another --streams")


def _read_tokenizers(folder: Path, languages: Sequence[str]) -> dict[str, Any]:
    """A tokenizer a language from its own folder below, or one for all."""
    places = {one: folder / one if (folder / one).is_dir() else folder for one in languages}
    read = {place: _read_tokenizer(place) for place in dict.fromkeys(places.values())}
    return {one: read[places[one]] for one in languages}


def _read_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    if not any(folder.glob("*.json")):
        raise InputError(f"{folder} holds no tokenizer that can be read: it has no tokenizer.json")
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} holds no tokenizer that can be read: {str(error).splitlines()[0]}") from error
