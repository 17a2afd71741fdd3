"""`isogloss lexicon`: do the words of two languages have one shape, and at which layer? Dictionary induction.

Every word of a text gets one vector a layer, the mean over all its uses; single-piece words also their row of the
embedding matrix. A map is learned on one part of a dictionary, and the other part is looked up with it, among all
words. The two languages may be read by two models that never saw each other's: then only a map can bring them together
(Conneau, Wu et al. 2020).
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isogloss.errors import InputError
from isogloss.mappings.methods import MappingSpec, parse_mappings, underdetermined_note
from isogloss.measures import induction
from isogloss.measures.retrieval import INDUCTION_METHODS
from isogloss.progress import Progress, silent
from isogloss.recipes import recipe as options
from isogloss.recipes.layer_comparison import Judged, behind_rows, check_widths, note_shortened, shared_layers
from isogloss.recipes.recipe import Option, Work, recipe
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.seeds import seed_of
from isogloss.stack.load import load
from isogloss.stack.stack import Stack, measuring_device
from isogloss.text import read_lexicon
from isogloss.text.catalog import VARIABLE, data_dir, find_lexicon
from isogloss.text.corpora import Lexicon
from isogloss.text.readers.dictionaries import read_word_vectors
from isogloss.text.readers.lines import languages_of
from isogloss.text.streams import paragraphs
from isogloss.vectors.static import TypeVectors, cooccurrences, count_types, ppmi_vectors, type_vectors

LEVELS = ("word", "piece")
KS = (1, 5, 10)
TRAINED = "train"  # --static train: word vectors are counted in the text itself
STATIC_LINES = 200_000  # lines of a file of word vectors that are read, the usual cut
STATIC_WIDTH, STATIC_WINDOW = 300, 5

WordVectors = tuple[Sequence[str], Tensor]  # words and the vector of each, (words, width)


@recipe
def lexicon(
    model: options.Model = "mini",
    *,
    text: Annotated[options.LanguageFiles, "text of a language, LANG=FILE[,FILE], a sentence a line; the source first"],
    train_lexicon: Annotated[
        list[str] | str | Path | None, "dictionaries to learn from, once a target; default: found in --data"
    ] = None,
    test_lexicon: Annotated[
        list[str] | str | Path | None, "dictionaries to look up, once a target; default: found in --data"
    ] = None,
    data: Annotated[str | None, "folder of data sets to find dictionaries in"] = None,
    other: Annotated[str | None, "a second model that reads the targets; default the same"] = None,
    levels: Annotated[str, "word: averaged over uses, by layer; piece: the embedding matrix"] = "word,piece",
    mappings: Annotated[
        str, "maps to compare: raw, centred, procrustes+iterative, ridge, ..."
    ] = "raw,procrustes+iterative",
    refine: Annotated[int, Option("rounds of refinement by mutual neighbours", least=0)] = 0,
    ridge_strength: Annotated[float, Option("strength of ridge", options.RARE, least=0)] = 1.0,
    static: Annotated[
        options.LanguageFiles | str | None, "a baseline: train (from the same text), or LANG=FILE of word vectors"
    ] = None,
    identical: Annotated[bool, "keep pairs that are written alike"] = True,
    sample: Annotated[int, Option("most sentences of a language, drawn by seed", least=1)] = 500_000,
    vocabulary: Annotated[int, Option("most words of a language, the most frequent", least=1)] = 20_000,
    min_count: Annotated[int, Option("uses a word must have", least=1)] = 3,
    layers: options.Layers = None,
    revision: options.Revision = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    out: options.Out = None,
    resume: options.Resume = False,
    progress: Progress = silent,
) -> Work:
    """Look words up in another language by their vectors, at every layer: P@1, P@5, P@10 before and after a map.

    Example: isogloss lexicon mini --text en=en.txt --text nl=nl.txt --train-lexicon en-nl.train.txt
    --test-lexicon en-nl.test.txt

    >>> lexicon("mini", text={"en": "en.txt", "nl": "nl.txt"}, train_lexicon="en-nl.train.txt",
    ...         test_lexicon="en-nl.test.txt")  # doctest: +SKIP
    """
    specs, wanted = parse_mappings(mappings), [level.strip() for level in levels.split(",")]
    if not set(wanted) <= set(LEVELS) or len(set(wanted)) < len(wanted):
        raise InputError(f"--levels takes {' and '.join(LEVELS)}, separated by a comma, not {levels!r}")
    files = options.language_files(text)
    if len(files) < 2:
        raise InputError(f"--text has one language only ({', '.join(files)}); a lexicon joins two, the source first")
    asked = ({"train": train_lexicon} if any(spec.learns for spec in specs) else {}) | {"test": test_lexicon}
    source, *targets = files
    lexicons = _read_lexicons(asked, source, targets, data)
    baseline = None if static is None else _read_static([static] if isinstance(static, str) else static, list(files))
    first = model if isinstance(model, Stack) else load(cast(Any, model), revision, dtype=dtype, device=device)
    second = first if other is None else load(other, dtype=dtype, device=device)
    check_widths((first.name, second.name), (first.width, second.width), specs)
    cuts = shared_layers(first, second, layers)
    name = options.model_name(first.name)
    reading = LexiconReading(
        source=source,
        device=measuring_device(first.device),
        models={"model": name, "other_model": None if other is None else options.model_name(second.name)},
        lexicons=lexicons,
        levels=[level for level in LEVELS if level in wanted],
        layers=cuts,
        fit={"refine": refine, "ridge_strength": ridge_strength},
        specs=specs,
        static=baseline,
        identical=identical,
        seed=seed,
    )

    def rows(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        texts = {name: draw_sentences(name, paths, most=sample, seed=seed) for name, paths in files.items()}
        most_frequent = partial(frequent_words, most=vocabulary, least=min_count, progress=progress)
        words = {name: most_frequent(drawn) for name, drawn in texts.items()}
        for target in targets:  # what is wrong with dictionaries and baselines is found before a model reads anything
            reading.entries(target, [words[source], words[target]])
        static = {} if baseline is None else _static_spaces(baseline, texts, words, seed, progress)
        for target in targets if static else ():
            widths = static[source][1].shape[1], static[target][1].shape[1]
            check_widths((f"--static {source}", f"--static {target}"), widths, specs)
        spaces: dict[tuple[str, str], TypeVectors | WordVectors] = {}
        for language, drawn in texts.items():
            stack = first if language == source else second
            about = {"model": options.model_name(stack.name), "task": "lexicon", "source": language, "seed": seed}
            counts = [row("vocabulary", len(words[language]), n=len(drawn), unit="word", **about)]
            if "word" in wanted:
                how: dict[str, Any] = {"types": words[language], "folder": run.scratch / "types", "layers": cuts}
                read = type_vectors(stack, drawn, language, total=len(drawn), progress=progress, **how)
                note_shortened(run, read.shortened, read.sentences, language, stack)
                counts.append(row("truncated", read.shortened, n=read.sentences, unit="sentence", **about))
                spaces["word", language] = read
            if "piece" in wanted:
                spaces["piece", language] = single_pieces(stack, words[language])
            yield counts
        for target in targets:
            yield from _pair_rows(reading, target, spaces, static, run, progress)

    def hashes(progress: Progress) -> dict[str, Any]:
        known: dict[str, Any] = {"model": first.fingerprint, "text": options.describe_files(files, progress)}
        known |= {} if other is None else {"other": second.fingerprint}
        if baseline is not None:
            vectors = {language: [path] for language, path in baseline.items()}
            known["static"] = options.describe_files(vectors, progress) or TRAINED
        return known | {f"{split} {target}": each.fingerprint for (split, target), each in lexicons.items()}

    return Work(name, rows, hashes, depth=first.cuts[-1])


@dataclass(frozen=True, kw_only=True)
class LexiconReading:
    """How words are looked up.

    Args:
        source: The language that words are looked up from.
        models: What tables call the source's model and that of the targets, None where it is one model.
        lexicons: The dictionary of each (split, target).
        levels: `word`, `piece`, or both.
        layers: Cuts to read.
        specs: Which mappings are compared.
        fit: How they are fitted.
        static: Files of static word vectors by language; none of them for counting in the text; None for no baseline.
        identical: Whether pairs that are written alike count.
        seed: Of every draw.
        device: Where vectors are compared.
    """

    source: str
    models: Mapping[str, str | None]
    lexicons: Mapping[tuple[str, str], Lexicon]
    levels: Sequence[str]
    layers: Sequence[int]
    specs: Sequence[MappingSpec]
    fit: Mapping[str, Any]
    static: Mapping[str, Path] | None
    identical: bool
    seed: int
    device: torch.device

    def entries(self, target: str, words: Sequence[Sequence[str]]) -> "Entries":
        """What two vocabularies know of the dictionaries."""
        train, test = self.lexicons.get(("train", target)), self.lexicons["test", target]
        return entries(train, test, (words[0], words[1]), identical=self.identical)


# --- rows ------------------------------------------------------------------------------------------------------------


def _pair_rows(
    reading: LexiconReading,
    target: str,
    spaces: Mapping[tuple[str, str], TypeVectors | WordVectors],
    static: Mapping[str, WordVectors],
    run: Run,
    progress: Progress,
) -> Iterator[Sequence[Row]]:
    """All rows of the source and one target; `identical` of the last level comes last: then they are all there."""
    languages = (reading.source, target)
    pair = {"task": "lexicon", "data": reading.lexicons["test", target].name, "seed": reading.seed}
    pair |= {"source": reading.source, "target": target}
    if run.has(row("identical", 0, condition="test", unit=reading.levels[-1], **pair, **reading.models)):
        return
    for level in reading.levels:
        words, at = zip(*(_space(spaces[level, language]) for language in languages), strict=True)
        base = {**pair, "unit": level}
        models = {**base, **reading.models}
        try:
            known = reading.entries(target, words)
        except InputError as error:
            run.note(f"{level}s of {reading.source} and {target} are not judged: {error}")
            yield [row(name, 0.0, n=0, condition="test", **models) for name in ("coverage", "identical")]
            continue
        if known.shared:
            run.note(
                f"{known.shared:,} pairs of {reading.lexicons['train', target].name} were not learned from: their "
                "words are looked up in the test"
            )
        by_layer: dict[Any, Judged] = {}
        layers: Sequence[int | None] = reading.layers if level == "word" else [None]
        for number, layer in enumerate(layers):
            sides = at[0](layer), at[1](layer)
            judged, coordinates = by_layer.setdefault(layer, {}), {**models, "layer": layer}
            yield list(_induction_rows(reading, sides, known, run.note, coordinates=coordinates, judged=judged))
            progress(f"looking up {level}s in {target}", number + 1, len(layers))
        yield list(behind_rows(by_layer, base=models, unit=level))
        if reading.static is not None:
            yield list(_static_rows(reading, words, [static[language] for language in languages], base, run))
        yield list(_coverage_rows(known, models))


def _space(read: TypeVectors | WordVectors) -> tuple[Sequence[str], Callable[[Any], Tensor]]:
    """The words that have a vector, and a function of the layer that gives those vectors, (words, width)."""
    if not isinstance(read, TypeVectors):
        return read[0], lambda _: read[1]
    seen = np.flatnonzero(read.counts)
    return [read.words[number] for number in seen.tolist()], lambda layer: read.at(layer)[torch.from_numpy(seen)]


def _induction_rows(
    reading: LexiconReading,
    sides: tuple[Tensor, Tensor],
    known: "Entries",
    note: Callable[[str], None],
    *,
    coordinates: Mapping[str, Any],
    judged: Judged,
) -> Iterator[Row]:
    """P@k of every mapping and method: sides (n, d) and (m, d) are the vectors of both vocabularies.

    judged takes what was found, note what the reader of the run must know.
    """
    x, y = (side.to(reading.device) for side in sides)
    for spec in reading.specs:
        train = known.pairs["train"] if spec.learns else torch.zeros((0, 2), dtype=torch.long)
        source, target = train.T.to(x.device)
        mapping = spec.fit(x[source], y[target], spaces=(x, y), **reading.fit)
        if mapping.underdetermined:
            note(underdetermined_note(spec.name, mapping.pairs, x.shape[1], "the dictionary"))
        mapped, goal = mapping(x), mapping.target(y)
        for method in INDUCTION_METHODS:
            answers = induction(mapped, goal, known.pairs["test"], method=method, ks=KS)
            judged[spec.name, method] = answers
            how = {"condition": spec.name, "method": method, **coordinates}
            yield from (row(f"p@{k}", share, **how) for k, share in answers.p.items())


def _static_rows(
    reading: LexiconReading,
    known: Sequence[Sequence[str]],
    static: Sequence[WordVectors],
    base: Mapping[str, Any],
    run: Run,
) -> Iterator[Row]:
    """The baseline on the same vocabularies: words that the model has a vector of, and no others."""
    sides, words = [], []
    for vocabulary, (names, vectors) in zip(known, static, strict=True):
        numbers = {word: number for number, word in enumerate(names)}
        words.append([word for word in vocabulary if word in numbers])
        sides.append(vectors[[numbers[word] for word in words[-1]]])
    models: list[str | None] = ["static: PPMI", None]
    if reading.static:
        models = [f"static: {reading.static[base[side]].name}" for side in ("source", "target")]
    try:
        matched = reading.entries(base["target"], words)
    except InputError as error:
        run.note(f"{models[0]} is not judged: {error}")
        return

    def note(sentence: str) -> None:
        run.note(f"{models[0]}: {sentence}")

    coordinates = {**base, "model": models[0], "other_model": models[1]}
    yield from _induction_rows(reading, (sides[0], sides[1]), matched, note, coordinates=coordinates, judged={})
    yield from _coverage_rows(matched, coordinates)


def _coverage_rows(known: "Entries", coordinates: Mapping[str, Any]) -> Iterator[Row]:
    """Which share of a dictionary's source words has a translation that the vocabularies know, or one written alike."""
    for split, n in known.words.items():
        yield row("coverage", known.known[split] / n, n=n, condition=split, **coordinates)
    n = known.known["test"]
    yield row("identical", known.alike / n, n=n, condition="test", **coordinates)


# --- the baseline: static word vectors -------------------------------------------------------------------------------


def _read_static(given: Any, languages: Sequence[str]) -> dict[str, Path]:
    """`train` (no files), or a file of word vectors for every language."""
    if list(given) == [TRAINED]:
        return {}
    if TRAINED in given:
        raise InputError("--static train stands alone; leave it out, or the files")
    files = options.language_files(given, option="static")
    if missing := [language for language in languages if language not in files]:
        raise InputError(f"--static has no word vectors of {', '.join(missing)}; give LANG=FILE for each, or train")
    for language in languages:
        if len(files[language]) > 1:
            raise InputError(f"--static {language}: one file of word vectors was expected, not {len(files[language])}")
    return {language: files[language][0] for language in languages}


def _static_spaces(
    files: Mapping[str, Path],
    texts: Mapping[str, "DrawnText"],
    words: Mapping[str, Sequence[str]],
    seed: int,
    progress: Progress,
) -> dict[str, WordVectors]:
    """Words and vectors of every language, of files or counted in the text: those of its vocabulary that have one."""
    spaces: dict[str, WordVectors] = {}
    width = min(STATIC_WIDTH, *(len(each) - 1 for each in words.values()))
    for language, text in texts.items():
        types = words[language]
        if files:
            known, values = read_word_vectors(files[language], keep=set(types), most=STATIC_LINES)
            spaces[language] = known, torch.from_numpy(values)
        else:
            how: dict[str, Any] = {"window": STATIC_WINDOW, "total": len(text), "progress": progress}
            counts = cooccurrences(text, language, types=types, **how)
            spaces[language] = types, torch.from_numpy(ppmi_vectors(counts, width=width, seed=seed))
    return spaces


# --- text, vocabularies and dictionaries -----------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawnText:
    """Files of one language, a sentence a line, and which of their sentences were drawn, (sentences,) of truth."""

    language: str
    files: Sequence[Path]
    drawn: NDArray[np.bool_]

    def __len__(self) -> int:
        """Number of sentences drawn."""
        return int(self.drawn.sum())

    def __iter__(self) -> Iterator[str]:
        """The sentences drawn, one at a time; the files are read again each time."""
        both = zip(paragraphs(self.files), self.drawn, strict=True)
        return (sentence for sentence, drawn in both if drawn)


def draw_sentences(language: str, files: Sequence[Path], *, most: int, seed: int) -> DrawnText:
    """At most so many sentences of the files, drawn by the seed; all where there are no more."""
    count = sum(1 for _ in paragraphs(files))
    drawn = np.ones(count, dtype=np.bool_)
    if count > most:
        drawn[:] = False
        chance = np.random.default_rng(seed_of(seed, "sentences", language))
        drawn[chance.choice(count, size=most, replace=False)] = True
    return DrawnText(language, files, drawn)


def frequent_words(text: DrawnText, *, most: int, least: int, progress: Progress) -> list[str]:
    """The most frequent words, seen at least so often, most frequent first; ties by alphabet."""
    progress(f"counting words of {text.language}", 0, 1)
    counts = count_types(text, text.language)
    progress(f"counting words of {text.language}", 1, 1)
    words = sorted((word for word, count in counts.items() if count >= least), key=lambda word: (-counts[word], word))
    if not words:
        raise InputError(
            f"the text of {text.language} has no word that occurs {least} times; give more text or a smaller "
            "--min-count"
        )
    return words[:most]


def single_pieces(stack: Stack, words: Sequence[str]) -> WordVectors:
    """The words that are a single piece of the model's vocabulary, and their rows of its embedding matrix, float32.

    A word that is no piece as it is may be one with a capital: German nouns are.
    """
    tokenizer = stack.tokenizer
    pieces: dict[int, int] = {}
    for spell in (str, str.capitalize):
        left = [number for number in range(len(words)) if number not in pieces]
        if not left:
            break
        encoded = tokenizer([spell(words[number]) for number in left], add_special_tokens=False)["input_ids"]
        pieces |= {
            number: ids[0]
            for number, ids in zip(left, encoded, strict=True)
            if len(ids) == 1 and ids[0] != tokenizer.unk_token_id
        }
    numbers = sorted(pieces)
    matrix = stack.model.get_input_embeddings().weight
    rows = torch.tensor([pieces[number] for number in numbers], dtype=torch.long, device=matrix.device)
    return [words[number] for number in numbers], matrix.detach()[rows].float().cpu()


@dataclass(frozen=True)
class Entries:
    """The pairs of two dictionaries that two vocabularies know, as row numbers (pairs, 2).

    words: how many source words each dictionary has, known: how many of them are left. alike: how many of those in the
    test have a translation that is written like them. shared: pairs of the training dictionary left out because their
    source word is in the test.
    """

    pairs: Mapping[str, Tensor]
    words: Mapping[str, int]
    known: Mapping[str, int]
    alike: int
    shared: int


def entries(
    train: Lexicon | None, test: Lexicon, words: tuple[Sequence[str], Sequence[str]], *, identical: bool = True
) -> Entries:
    """Which pairs of the dictionaries two vocabularies know; a dictionary of unknown words is refused.

    identical: whether pairs written alike count.
    """
    numbers = [{word: number for number, word in enumerate(side)} for side in words]
    asked = {source.lower() for source, _ in test}
    pairs, sizes, known, shared = {}, {}, {}, 0
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
    return Entries(pairs, sizes, known, alike, shared)


def _read_lexicons(
    given: Mapping[str, Any], source: str, targets: Sequence[str], data: str | None
) -> dict[tuple[str, str], Lexicon]:
    """The dictionary of every (split, target): of the files given for a split, or else one found in the data folder.

    A file belongs to the two languages in its name; one without them to the only target there is.
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
