"""`isogloss lexicon`: bilingual lexicon induction from the word vectors of every layer.

Every word of a text gets one vector per layer, the mean over all its uses; words of a single token also have their row
of the embedding matrix. A mapping is learned on one part of a dictionary and evaluated on the other part, with all
words as candidates. The two languages may be read by two monolingual models, whose spaces only a mapping can align
(Conneau, Wu et al. 2020).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.mappings.methods import MappingSpec, check_widths, parse_mappings, underdetermined_note
from isogloss.measures.retrieval import INDUCTION_METHODS, induction
from isogloss.progress import progress
from isogloss.recipes import recipe as options
from isogloss.recipes.layer_comparison import Judged, behind_rows, note_shortened, shared_layers
from isogloss.recipes.recipe import Option, Work, recipe
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.seeds import seed_of
from isogloss.stack.load import load
from isogloss.stack.stack import Stack, measuring_device, weight_of
from isogloss.text.catalog import VARIABLE, data_dir, find_lexicon
from isogloss.text.corpora import Lexicon
from isogloss.text.readers.dictionaries import read_lexicon, read_word_vectors
from isogloss.text.readers.lines import languages_of, paragraphs
from isogloss.vectors.static import cooccurrences, count_types, ppmi_vectors, type_vectors

LEVELS = ("word", "piece")
KS = (1, 5, 10)
STATIC = "static"  # the level of static word vectors, the baseline
TRAINED = "train"  # --static train: word vectors are computed from the text itself
STATIC_LINES = 200_000  # lines read from a file of word vectors, as is usual
STATIC_WIDTH, STATIC_WINDOW = 300, 5


@recipe
def lexicon(
    model: options.Model = "mini",
    *,
    text: Annotated[options.LanguageFiles, "text, LANG=FILE[,FILE], one sentence per line; the source language first"],
    train_lexicon: Annotated[
        list[str] | str | Path | None, "training dictionaries, one per target language; default: found in --data"
    ] = None,
    test_lexicon: Annotated[
        list[str] | str | Path | None, "test dictionaries, one per target language; default: found in --data"
    ] = None,
    data: Annotated[str | None, "folder of data sets to find dictionaries in"] = None,
    other: Annotated[str | None, "a second model for the target languages; default the same"] = None,
    levels: Annotated[str, "word: averaged over uses, by layer; piece: the embedding matrix"] = "word,piece",
    mappings: Annotated[
        str, "mappings to compare: raw, centred, procrustes+iterative, ridge, ..."
    ] = "raw,procrustes+iterative",
    refine: Annotated[int, Option("rounds of refinement by mutual nearest neighbours", least=0)] = 0,
    ridge_strength: Annotated[float, Option("regularisation strength of ridge", options.RARE, least=0)] = 1.0,
    static: Annotated[
        options.LanguageFiles | str | None, "a baseline: train (from the same text), or LANG=FILE of word vectors"
    ] = None,
    identical: Annotated[bool, "keep pairs with identical spelling"] = True,
    sample: Annotated[int, Option("sentences per language, at most, drawn by seed", least=1)] = 500_000,
    vocabulary: Annotated[int, Option("most frequent words per language, at most", least=1)] = 20_000,
    min_count: Annotated[int, Option("minimum number of uses of a word", least=1)] = 3,
    layers: options.Layers = None,
    revision: options.Revision = None,
    seed: options.Seed = 0,
    device: options.ReadingDevice = "auto",
    dtype: options.Dtype = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> Work:
    """Look words up in another language by their vectors, at every layer: P@1, P@5, P@10 before and after a mapping.

    Example: isogloss lexicon mini --text en=en.txt --text nl=nl.txt --train-lexicon en-nl.train.txt
    --test-lexicon en-nl.test.txt

    >>> lexicon("mini", text={"en": "en.txt", "nl": "nl.txt"}, train_lexicon="en-nl.train.txt",
    ...         test_lexicon="en-nl.test.txt")  # doctest: +SKIP
    """
    specs = parse_mappings(mappings, refine=refine, ridge_strength=ridge_strength)
    wanted = [level.strip() for level in levels.split(",")]
    if not set(wanted) <= set(LEVELS) or len(set(wanted)) < len(wanted):
        raise InputError(f"--levels takes {' and '.join(LEVELS)}, separated by a comma, not {levels!r}")
    files = options.language_files(text)
    if len(files) < 2:
        raise InputError(f"--text has one language only ({', '.join(files)}); a lexicon joins two, the source first")
    asked = ({"train": train_lexicon} if any(spec.learns for spec in specs) else {}) | {"test": test_lexicon}
    source, *targets = files
    lexicons = _read_lexicons(asked, source, targets, data)
    known_entries = {
        target: partial(entries, lexicons.get(("train", target)), lexicons["test", target], identical=identical)
        for target in targets
    }
    baseline = None if static is None else _read_static([static] if isinstance(static, str) else static, list(files))
    first = model if isinstance(model, Stack) else load(cast(Any, model), revision, dtype=dtype, device=device)
    second = first if other is None else load(other, dtype=dtype, device=device)
    check_widths((first.name, second.name), (first.width, second.width), specs)
    cuts = shared_layers(first, second, layers)
    look_up = partial(_lookup_rows, specs=specs, device=measuring_device(first.device))

    def rows(run: Run) -> Iterator[Sequence[Row]]:
        texts = {name: draw_sentences(name, paths, most=sample, seed=seed) for name, paths in files.items()}
        words = {name: frequent_words(name, drawn, most=vocabulary, least=min_count) for name, drawn in texts.items()}
        for target in targets:  # mistakes in dictionaries and baselines are found before a model reads anything
            known_entries[target]((words[source], words[target]))
        spaces: dict[tuple[str, str], Space] = {}
        if baseline is not None:
            spaces |= _static_spaces(baseline, texts, words, seed)
            widths = {language: spaces[STATIC, language].vectors[None].shape[1] for language in files}
            for target in targets:
                check_widths((f"--static {source}", f"--static {target}"), (widths[source], widths[target]), specs)
        for language, drawn in texts.items():
            stack = first if language == source else second
            name = options.model_name(stack.name)
            shown = name if language == source or other is not None else None
            about = {"model": name, "task": "lexicon", "source": language, "seed": seed}
            counts = [row("vocabulary", len(words[language]), n=len(drawn), unit="word", **about)]
            if "word" in wanted:
                how: dict[str, Any] = {"types": words[language], "folder": run.scratch / "types", "layers": cuts}
                read = type_vectors(stack, drawn, language, total=len(drawn), **how)
                note_shortened(run, read.shortened, read.sentences, text=language, stack=stack)
                counts.append(row("truncated", read.shortened, n=read.sentences, unit="sentence", **about))
                spaces["word", language] = Space(shown, read.words, read.vectors)
            if "piece" in wanted:
                pieces, matrix = single_pieces(stack, words[language])
                spaces["piece", language] = Space(shown, pieces, {None: matrix})
            yield counts
        for target in targets:
            base = {"data": lexicons["test", target].name, "source": source, "target": target, "seed": seed}
            yield from _pair_rows(known_entries[target], spaces, look_up, base={"task": "lexicon", **base}, run=run)

    def hashes() -> dict[str, Any]:
        known: dict[str, Any] = {"model": first.fingerprint, "text": options.describe_files(files)}
        known |= {} if other is None else {"other": second.fingerprint}
        if baseline is not None:
            vectors = {language: [path] for language, path in baseline.items()}
            known["static"] = options.describe_files(vectors) or TRAINED
        return known | {f"{split} {target}": each.fingerprint for (split, target), each in lexicons.items()}

    return Work(options.model_name(first.name), rows, hashes, tuple({*first.notes, *second.notes}), first.cuts[-1])


@dataclass(frozen=True)
class Space:
    """Words of one language and their vectors (words, width) by layer; the key is None for vectors without a layer.

    Vectors without a layer are static vectors and rows of the embedding matrix. model: name of the model in the table;
    None on the target side if one model reads both languages.
    """

    model: str | None
    words: Sequence[str]
    vectors: Mapping[Any, Tensor]


# --- rows ------------------------------------------------------------------------------------------------------------


def _pair_rows(
    known_entries: Callable[[Sequence[Sequence[str]]], "Entries"],
    spaces: Mapping[tuple[str, str], Space],
    look_up: Callable[..., Iterator[Sequence[Row]]],
    *,
    base: Mapping[str, Any],
    run: Run,
) -> Iterator[Sequence[Row]]:
    """All rows of the source and one target language.

    The row `identical` of the last level is written last; a resumed run that has it skips the pair.
    known_entries: returns the dictionary entries that two vocabularies contain. spaces: by level and language.
    """
    source, target = languages = base["source"], base["target"]
    levels = {level: {**base, "unit": level} for level in LEVELS if (level, source) in spaces}
    for level, where in levels.items():
        where |= _models([spaces[level, language] for language in languages])
    if run.has(row("identical", 0, condition="test", **where)):
        return
    for level, where in levels.items():
        sides = [spaces[level, language] for language in languages]
        try:
            known = known_entries([side.words for side in sides])
        except InputError as error:
            run.note(f"{level}s of {source} and {target} are not evaluated: {error}")
            yield [row(name, 0.0, n=0, condition="test", **where) for name in ("coverage", "identical")]
            continue
        if known.shared:
            why = "were left out of training: their source words are in the test"
            run.note(f"{known.shared:,} pairs of {known.name} {why}")
        if (STATIC, source) in spaces:  # on the same vocabularies: only words that have a vector in the model
            common = [_among(spaces[STATIC, name], side.words) for name, side in zip(languages, sides, strict=True)]
            title = common[0].model
            try:
                matched = known_entries([side.words for side in common])
            except InputError as error:
                run.note(f"{title} is not evaluated: {error}")
            else:
                yield from look_up(common, matched, {**where, **_models(common)}, run, prefix=f"{title}: ")
        yield from look_up(sides, known, where, run, stage=f"looking up {level}s in {target}")


def _models(sides: Sequence[Space]) -> dict[str, Any]:
    return {"model": sides[0].model, "other_model": sides[1].model}


def _lookup_rows(
    sides: Sequence[Space],
    known: "Entries",
    coordinates: Mapping[str, Any],
    run: Run,
    *,
    specs: Sequence[MappingSpec],
    device: torch.device,
    prefix: str = "",
    stage: str = "",
) -> Iterator[Sequence[Row]]:
    """Rows of P@k at every layer for every mapping and method, of each layer's distance to the best, and of coverage.

    prefix: prefix of notes of the run. stage: name of the stage for progress; empty for no progress.
    """
    by_layer: dict[Any, Judged] = {}
    for number, layer in enumerate(sides[0].vectors):
        x, y = (side.vectors[layer].to(device) for side in sides)
        source, target = known.pairs["train"].T.to(device)
        judged, rows = by_layer.setdefault(layer, {}), list[Row]()
        for spec in specs:
            mapping = spec.fit(x[source], y[target], spaces=(x, y))
            if mapping.underdetermined:
                run.note(prefix + underdetermined_note(spec.name, mapping.pairs, x.shape[1], "the dictionary"))
            mapped, goal = mapping(x), mapping.target(y)
            for method in INDUCTION_METHODS:
                judged[spec.name, method] = induction(mapped, goal, known.pairs["test"], method=method, ks=KS)
                how = {"condition": spec.name, "method": method, **coordinates, "layer": layer}
                rows += [row(f"p@{k}", share, **how) for k, share in judged[spec.name, method].p.items()]
        yield rows
        if stage:
            progress(stage, number + 1, len(sides[0].vectors))
    yield list(behind_rows(by_layer, base=coordinates, unit=coordinates["unit"]))
    # The share of a dictionary's source words with a translation in the vocabularies, and with an identical one.
    rows = [
        row("coverage", known.known[split] / n, n=n, condition=split, **coordinates) for split, n in known.words.items()
    ]
    n = known.known["test"]
    yield [*rows, row("identical", known.alike / n, n=n, condition="test", **coordinates)]


# --- the baseline: static word vectors -------------------------------------------------------------------------------


def _read_static(given: Any, languages: Sequence[str]) -> dict[str, Path]:
    """The file of word vectors of every language; empty for `train`."""
    if list(given) == [TRAINED]:
        return {}
    require(TRAINED not in given, "--static train stands alone; leave it out, or the files")
    files = options.language_files(given, option="static")
    if missing := [language for language in languages if language not in files]:
        raise InputError(f"--static has no word vectors of {', '.join(missing)}; give LANG=FILE for each, or train")
    for language in languages:
        if len(files[language]) > 1:
            raise InputError(f"--static {language}: one file of word vectors was expected, not {len(files[language])}")
    return {language: files[language][0] for language in languages}


def _static_spaces(
    files: Mapping[str, Path], texts: Mapping[str, "DrawnText"], words: Mapping[str, Sequence[str]], seed: int
) -> dict[tuple[str, str], Space]:
    """Static vectors of the vocabulary of every language, read from files or computed from the text."""
    spaces = {}
    width = min(STATIC_WIDTH, *(len(types) - 1 for types in words.values()))
    for number, (language, text) in enumerate(texts.items()):
        model, types = "static: PPMI" if number == 0 else None, words[language]
        if files:
            model = f"static: {files[language].name}"
            types, values = read_word_vectors(files[language], keep=set(types), most=STATIC_LINES)
        else:
            counts = cooccurrences(text, language, types=types, window=STATIC_WINDOW, total=len(text))
            values = ppmi_vectors(counts, width=width, seed=seed)
        spaces[STATIC, language] = Space(model, types, {None: torch.from_numpy(values)})
    return spaces


def _among(space: Space, words: Sequence[str]) -> Space:
    """The space restricted to these words, in their order."""
    numbers = {word: number for number, word in enumerate(space.words)}
    common = [word for word in words if word in numbers]
    return Space(space.model, common, {None: space.vectors[None][[numbers[word] for word in common]]})


# --- text, vocabularies and dictionaries -----------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawnText:
    """A sample of the sentences of some files, given by a mask (sentences,) bool; each iteration reads the files."""

    files: Sequence[Path]
    drawn: NDArray[np.bool_]

    def __len__(self) -> int:
        return int(self.drawn.sum())

    def __iter__(self) -> Iterator[str]:
        return compress(paragraphs(self.files), self.drawn)


def draw_sentences(language: str, files: Sequence[Path], *, most: int, seed: int) -> DrawnText:
    """Draw at most `most` sentences of the files by the seed; all of them if there are no more."""
    drawn = np.ones(sum(1 for _ in paragraphs(files)), dtype=np.bool_)
    if len(drawn) > most:
        rng = np.random.default_rng(seed_of(seed, "sentences", language))
        drawn = np.isin(np.arange(len(drawn)), rng.choice(len(drawn), size=most, replace=False))
    return DrawnText(files, drawn)


def frequent_words(language: str, text: Iterable[str], *, most: int, least: int) -> list[str]:
    """The `most` most frequent words with at least `least` uses, most frequent first; ties in alphabetical order."""
    progress(f"counting words of {language}", 0, 1)
    counts = count_types(text, language)
    progress(f"counting words of {language}", 1, 1)
    words = sorted((word for word, count in counts.items() if count >= least), key=lambda word: (-counts[word], word))
    require(
        words, f"the text of {language} has no word that occurs {least} times; give more text or a smaller --min-count"
    )
    return words[:most]


def single_pieces(stack: Stack, words: Sequence[str]) -> tuple[list[str], Tensor]:
    """The words that are a single token of the model's vocabulary, and their rows of the embedding matrix, float32.

    If the lower-case form is not a single token, the capitalised form may be, as with German nouns.
    """
    tokenizer, matrix = stack.tokenizer, weight_of(stack.model.get_input_embeddings(), "weight")
    spelled = [
        tokenizer([spell(word) for word in words], add_special_tokens=False)["input_ids"]
        for spell in (str.capitalize, str)
    ]
    pieces: dict[str, int] = {}
    for encoded in spelled:  # the lower-case form comes last and takes precedence
        single = {word: ids[0] for word, ids in zip(words, encoded, strict=True) if len(ids) == 1}
        pieces |= {word: piece for word, piece in single.items() if piece != tokenizer.unk_token_id}
    known = [word for word in words if word in pieces]
    rows = torch.tensor([pieces[word] for word in known], dtype=torch.long, device=matrix.device)
    return known, matrix.detach()[rows].float().cpu()


@dataclass(frozen=True)
class Entries:
    """The pairs of two dictionaries with both words in the vocabularies, as row numbers (pairs, 2).

    words: number of source words of each dictionary. known: how many of them are in `pairs`. alike: number of source
    words in the test pairs with an identical translation. shared: number of pairs of the training dictionary, `name`,
    that were left out because their source word is in the test.
    """

    pairs: Mapping[str, Tensor]
    words: Mapping[str, int]
    known: Mapping[str, int]
    alike: int
    shared: int
    name: str


def entries(train: Lexicon | None, test: Lexicon, words: Sequence[Sequence[str]], *, identical: bool = True) -> Entries:
    """The pairs of the dictionaries with both words in the vocabularies; a dictionary without such pairs is refused.

    identical: whether to keep pairs with identical spelling.
    """
    numbers = [{word: number for number, word in enumerate(side)} for side in words]
    asked = {source.lower() for source, _ in test}
    pairs, sizes, known, shared = {"train": torch.zeros((0, 2), dtype=torch.long)}, {}, {}, 0
    for split, lexicon in (("train", train), ("test", test)):
        if lexicon is None:
            continue
        lower = list(dict.fromkeys((source.lower(), target.lower()) for source, target in lexicon))
        lower = [pair for pair in lower if identical or pair[0] != pair[1]]
        sizes[split] = len({source for source, _ in lower})
        if split == "train":
            shared = sum(source in asked for source, _ in lower)
            lower = [pair for pair in lower if pair[0] not in asked]
            if shared and not lower:
                raise InputError(
                    f"{lexicon.name}: all its words are asked by {test.name}, and what is asked is not learned "
                    "from; give a dictionary of other words"
                )
        both = [(source, target) for source, target in lower if source in numbers[0] and target in numbers[1]]
        if not both:
            raise InputError(
                f"{lexicon.name}: of its {len(lower):,} pairs none has both words among the {len(words[0]):,} words of "
                f"{lexicon.source} and {len(words[1]):,} of {lexicon.target} in the text; check the languages, or give "
                "more text"
            )
        pairs[split] = torch.tensor([(numbers[0][source], numbers[1][target]) for source, target in both])
        known[split] = len({source for source, _ in both})
    alike = len({source for source, target in pairs["test"].tolist() if words[0][source] == words[1][target]})
    return Entries(pairs, sizes, known=known, alike=alike, shared=shared, name="" if train is None else train.name)


def _read_lexicons(
    given: Mapping[str, Any], source: str, targets: Sequence[str], data: str | None
) -> dict[tuple[str, str], Lexicon]:
    """The dictionary of every (split, target): from the files given for a split, or else found in the data folder.

    A file belongs to the two languages in its name; a file without languages in its name, to the only target.
    """
    lexicons = {}
    for split, files in given.items():
        paths = [Path(file) for file in ([files] if isinstance(files, str | Path) else files or [])]
        for target in targets:
            if files is None:
                if data is None and not os.environ.get(VARIABLE):
                    raise InputError(
                        f"give a dictionary with --{split}-lexicon FILE, or a folder to find one in with --data"
                    )
                path = find_lexicon(data_dir(data), source, target, split=split)
            else:
                named = [path for path in paths if set(languages_of(path) or ()) == {source, target}]
                if len(targets) == len(paths) == 1 and languages_of(paths[0]) is None:
                    named = paths
                if not named:
                    raise InputError(
                        f"--{split}-lexicon: none of {', '.join(path.name for path in paths)} is a dictionary of "
                        f"{source} and {target} by its name; name it as in {source}-{target}.txt"
                    )
                path = named[0]
            lexicons[split, target] = read_lexicon(path, source, target)
    return lexicons
