"""`isogloss transfer`: train a task in one language, test it in all the others, and ask which layers carry it across.

The model is given a head and trained on examples of the source language; then source and targets are tested, none of
which it has seen an answer of. What is frozen or re-initialised is a plan: with `freeze:n` for every n this is the
experiment of Jexus (2020), with `reinit:a-b` the RANDOM-INIT of Muller et al. (2021). Every plan is trained with every
seed and learning rate; the epoch and the rate are chosen on the source's development set. Translations of the training
examples may join them, and code-switching mixes languages within an example (Pan et al. 2021).
"""

import copy
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.files import write_text
from isogloss.measures.cka import cka_of_pairs, cka_rbf_of_pairs
from isogloss.progress import listening, named, progress, silent
from isogloss.recipes import recipe, task_sets, training_options
from isogloss.recipes.recipe import OPTIMISER, LanguageFile, LanguageFiles, Option, hidden
from isogloss.recipes.task_scores import result_rows, score_probe, scored_models
from isogloss.recipes.task_sets import TaskSets
from isogloss.runs.run import Run
from isogloss.runs.table import START, UNTUNED, Row, mean_rows, row, settings_text, training_folder, training_name
from isogloss.seeds import seed_of
from isogloss.stack.edit import merged
from isogloss.stack.load import choose_device, load, quietly
from isogloss.stack.stack import Stack
from isogloss.tasks import TASKS, find_task
from isogloss.tasks.frozen_prefix import Prefix, home_of, read_prefix
from isogloss.tasks.model import TaskModel, task_objective
from isogloss.tasks.task import Items
from isogloss.text.batches import Batch as TokenBatch, encode
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.text.switching import Switching
from isogloss.training.checkpoints import Checkpoints, finish, finished
from isogloss.training.loop import FINE_TUNING, Optimisation, Settings, Training, join, steps_in_epoch
from isogloss.training.plans import Plan, apply_plan, frozen_at
from isogloss.training.probes import arithmetic
from isogloss.training.stopping import select_by
from isogloss.vectors.extract import stream


@recipe.recipe
def transfer(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    task: Annotated[str, f"what is learned: {', '.join(TASKS)}"],
    train: Annotated[LanguageFile, "examples to train on, LANG=FILE[,FILE]"],
    dev: Annotated[
        LanguageFiles, "examples to choose by, LANG=FILE; other languages' are the oracle's, once a language"
    ],
    test: Annotated[LanguageFiles, "examples to test on, LANG=FILE[,FILE], once a set, the source's too"],
    translated: Annotated[
        LanguageFiles | None, "row by row translations of --train, trained on, too, LANG=FILE[,FILE], once a language"
    ] = None,
    switch: Annotated[
        float,
        "probability that a segment (premise, hypothesis, question) is taken from a translation (the paper's could not "
        "be read; reproduce pan2021 takes 0.5)",
    ] = 0.0,
    switch_to: Annotated[
        Literal["source", "any"], "the language it is taken from: source, as Pan et al., or any other"
    ] = "source",
    lexicon: Annotated[
        LanguageFiles | None, "dictionary from the language of --train, LANG=FILE, once a language"
    ] = None,
    switch_words: Annotated[float, "probability that a word of a --lexicon is replaced by a translation"] = 0.0,
    target_models: Annotated[
        LanguageFiles | None, "LANG=FOLDER: a target's own model, for what the plan freezes"
    ] = None,
    plans: Annotated[str, "what trains: freeze:8, reinit:1-2, ...; several with commas"] = "freeze:-1",
    seeds: training_options.Seeds = 1,
    epochs: training_options.Epochs = 3,
    batch: training_options.Batch = 32,
    rate: Annotated[
        str | float, Option("highest learning rate; several with commas, source dev chooses", OPTIMISER)
    ] = 5e-5,
    warm_up: training_options.WarmUp = 0.1,
    decay: training_options.DecayName = "linear",
    weight_decay: training_options.WeightDecay = 0.0,
    clip: training_options.Clip = 1.0,
    length: Annotated[
        int | None, Option("most tokens of an example; default the task's, or the model's if it is less", least=8)
    ] = None,
    probe: Annotated[recipe.PositiveInt | None, "updates between scores; default an epoch"] = None,
    frozen_dropout: Annotated[bool, "dropout in frozen layers, too; they are then not computed once"] = False,
    cache: Annotated[bool, "compute frozen layers once and keep their states"] = True,
    save_models: Annotated[bool, "write the best model of each training"] = False,
    skip_bad: Annotated[bool, "leave bad rows out and count them"] = False,
    checkpoint: training_options.CheckpointEvery = 1000,
    revision: recipe.Revision = None,
    seed: recipe.Seed = 0,
    device: recipe.Device = "auto",
    dtype: training_options.TrainDtype = None,
    cka_condition: Annotated[str, hidden("take Gaussian CKA a second time, in rows of this condition")] = "",
    cka_shifted: Annotated[bool, hidden("its batches are windows, each shifted by one sentence")] = False,
    cka_batch: Annotated[int | None, hidden("sentences in one of its batches; default a quarter of all")] = None,
    cka_specials: Annotated[bool, hidden("its sentences have special tokens written into them")] = False,
    out: recipe.Out = None,
    resume: recipe.Resume = False,
) -> recipe.Work:
    """Train a task in one language and test it in others: scores, and the gap to the source.

    Example: isogloss transfer mini --task nli --train en=mnli.tsv --dev en=dev.tsv --test en=en.tsv --test nl=nl.tsv
    """
    training_options.one_process("transfer")
    processor, chosen_plans, rates = choose_device(device), training_options.plan_list(plans), rate_list(rate)
    half = training_options.half_precision(dtype, processor)
    autocast = torch.bfloat16 if half else None
    sets = task_sets.read_sets(find_task(task), train=train, dev=dev, test=test, skip_bad=skip_bad)
    if translated:
        sets = task_sets.add_translations(sets, translated, skip_bad=skip_bad)
    switching = Switching()
    if switch or switch_words or lexicon:
        switching = task_sets.read_switching(sets, share=switch, to=switch_to, words=switch_words, lexicon=lexicon)
    stack = load(model, revision, dtype="float32", device=processor)
    half_model = f"{model} is an encoder-decoder; transfer trains encoders and decoders"
    require(stack.family.kind != "encoder-decoder", half_model)
    unseen = f"{model} is a decoder, whose first token has seen nothing of the text, and --task {task} reads it"
    require(not (stack.causal and sets.task.first_token), f"{unseen}; choose an encoder")
    tokens = min(stack.max_length, length or sets.task.length)
    for plan in chosen_plans:
        frozen_at(plan, 0, depth=stack.last, epoch=1)  # refuses a plan for a deeper model
    one_model = "--bitext compares languages in one model, and --target-models gives a language one of its own"
    require(not bitext or not target_models, one_model)
    own_models: dict[str, Stack] = {}
    if target_models:
        own_models = _read_target_models(target_models, sets, stack, plans=chosen_plans, half=half)
    text = compared_text(bitext, size=cka_batch or 0, shifted=cka_shifted) if bitext else None
    ways: Ways = {"": (encode, {})}
    if cka_condition:
        more = encode_written_specials if cka_specials else encode, {"shifted": cka_shifted, "size": cka_batch}
        ways = {**ways, cka_condition: more}
    base = {"model": recipe.model_name(model), "task": sets.task.name, "source": sets.source}

    def rows(run: Run) -> Iterator[Sequence[Row]]:
        own = [own_models.get(each.language) for each in sets.all]
        encoded: dict[str, Any] = {"length": tokens, "causal": stack.causal}
        items, lost = task_sets.tokenise_sets(sets, [(each or stack).tokenizer for each in own], **encoded)
        known = [task_sets.dictionary_note(sets, switching)] if switching.lexicons else []
        for sentence in [*known, *sets.notes, *lost]:
            run.note(sentence)
        fixed = not frozen_dropout and not switching
        frozen = FrozenStates(items, [None, *own[-len(sets.scored) :]], run.scratch, cache, fixed, autocast)
        if text is not None:
            begun = replace(stack, pack=half) if processor.type == "cuda" else stack
            reading: dict[str, Any] = {"text": text, "ways": ways, "source": sets.source}
            start = sentence_states(begun, text, ways, dtype=autocast)
            yield compare_languages(start, {**base, "plan": UNTUNED}, **reading)
        yield task_sets.skipped_rows(sets, base)
        total, epoch = len(chosen_plans) * seeds * len(rates), steps_in_epoch(items[0], batch)
        steps, readings = epochs * epoch, ceil(epochs * epoch / (probe or epoch))
        done, report = itertools.count(1), max(1, steps // 50)

        def train_plan(plan: Plan, settings: Settings, folder: Path, coordinates: Row) -> Iterator[Sequence[Row]]:
            """The rows of one training, from its start or its last checkpoint; none where it is finished.

            folder: takes checkpoints, the counts of every score and, with --save-models, the best model.
            """
            if finished(folder):
                return
            number, (trained, *scored) = settings.seed, items
            begun = replace(stack, model=copy.deepcopy(stack.model))
            learner = TaskModel(begun, sets.task, sets.labels, seed=number, dropout=frozen_dropout, half=half)
            planned = apply_plan(learner.stack, plan, epoch=epoch, seed=number, hold=learner.hold)
            first, *prefixes = frozen.below(learner.still, plan, step=steps - 1, epoch=epoch, seed=number)
            drawing: dict[str, Any] = {"batch": batch, "seed": number, "prefix": first}
            if switching:  # items are others in each epoch
                changed = partial(task_sets.switched_items, sets, trained, switching, number, **encoded)
                drawing["changing"] = partial(changed, tokenizer=stack.tokenizer)
            objective = task_objective(learner, trained, **drawing)
            training = Training(learner, objective, settings, join(learner.stack.device))
            scoring: dict[str, Any] = {"prefixes": prefixes, "dtype": autocast, "every": probe or epoch}
            export = partial(save_task_model, learner) if save_models else lambda _: None
            best_on = {"target": sets.source, "data": sets.dev[sets.source].name}
            yield from training_options.training_rows(
                training,
                coordinates,
                loss={"data": "train", "unit": "answer"},
                checkpoints=Checkpoints(folder, export, checkpoint),
                probes=[score_probe(training, learner, sets, scored, folder=folder, **scoring)],
                plan=planned,
                selection=select_by(sets.task.main, **best_on) if save_models else None,
            )
            if text is not None:
                with listening(silent):
                    now = sentence_states(learner.still, text, ways, dtype=autocast)
                yield compare_languages(now, coordinates, start=start, **reading)
            finish(folder)

        for plan in chosen_plans:
            results: list[Row] = []
            for number in range(seed, seed + seeds):
                models = []
                about = {**base, "plan": str(plan), "condition": switching.condition, "seed": number}
                for each in rates:
                    coordinates = {**about, "settings": settings_text({"rate": each} if len(rates) > 1 else {})}
                    schedule = Optimisation(each, round(warm_up * steps), decay, weight_decay, clip, *FINE_TUNING)
                    settings = Settings(steps, number, schedule, report, half=half)
                    folder = run.folder / "checkpoints" / training_folder(coordinates)
                    stage = f"training {training_name(coordinates)}, seed {number} ({next(done)} of {total})"
                    yield from named(stage, train_plan(plan, settings, folder, coordinates))
                    models += scored_models(folder, each, number=readings)
                chosen = result_rows(models, sets, about)
                results += chosen
                yield chosen
            yield mean_rows(results)

    hashes = {"model": stack.fingerprint, "data": sets.hashes, **_hashes(own_models, switching, text)}
    alone = f"the parallel text has no {sets.source}, so no language is compared with the one that is trained in"
    notes = [*stack.notes, *([alone] if text is not None and sets.source not in text.languages else [])]
    return recipe.Work(str(base["model"]), rows, hashes, notes, stack.last)


def _hashes(own_models: Mapping[str, Stack], switching: Switching, text: Bitext | None) -> dict[str, Any]:
    """Hashes of what need not be given, where it is."""
    hashes = {
        "own": {language: own.fingerprint for language, own in own_models.items()},
        "dictionaries": {f"{each.target} {each.name}": each.fingerprint for each in switching.lexicons},
        "parallel text": "" if text is None else text.fingerprint,
    }
    return {name: digest for name, digest in hashes.items() if digest}


def rate_list(given: str | float) -> list[float]:
    """The learning rates of --rate, separated by commas, none of them twice."""
    rates: list[float] = []
    with suppress(ValueError):
        rates = [float(part) for part in str(given).split(",")]
    if not rates or not all(0 < rate < inf for rate in rates) or len(set(rates)) < len(rates):
        raise InputError(
            f"--rate takes numbers above 0 with commas, none of them twice, as in 2e-5,5e-5, not {given!r}"
        )
    return rates


@dataclass
class FrozenStates:
    """The states of frozen layers, kept for all trainings in a row that freeze the same ones.

    Training text has states in memory or in a file, and none where `training` is false: dropout makes them differ from
    step to step, or code-switching from epoch to epoch. Scored sets have states where memory has room, and are run from
    their text otherwise. A language with a model of its own has the states of that model, those of its embeddings too.

    items: the training text, then every scored set; own_models: the model of its own that the language of each of them
    has. folder: for files. cache: whether states are kept at all, but for those of own models. dtype: of autocast.
    """

    items: Sequence[Items]
    own_models: Sequence[Stack | None]
    folder: Path
    cache: bool
    training: bool
    dtype: torch.dtype | None
    _last: tuple[str, list[Prefix | None]] = "", []

    def below(self, still: Stack, plan: Plan, *, step: int, epoch: int, seed: int) -> list[Prefix | None]:
        """The states below what a plan trains up to a step, of all items; None where they are not kept.

        still: the model with the plan's fresh weights. Below block 1 there is nothing to save.
        """
        cut = frozen_at(plan, step, depth=still.last, epoch=epoch)
        fresh = [block for block in plan.reinit if block <= cut]
        drawn = f"-{plan.initialiser}-{'-'.join(map(str, fresh))}-seed-{seed}" if fresh else ""
        if (name := f"cut-{cut}{drawn}") != self._last[0]:
            self._last = "", []  # before the next ones need their room
            prefixes: list[Prefix | None] = []
            for number, (items, own) in enumerate(zip(self.items, self.own_models, strict=True)):
                prefix = None
                if own is not None:
                    prefix = read_prefix(own, items, cut, dtype=self.dtype) if cut >= 0 else None
                elif (
                    self.cache
                    and still.family.cuts
                    and cut >= 1
                    and (home_of(still, items, self.dtype) if number else self.training)
                ):
                    file = None if number else self.folder / f"{name}.states"
                    prefix = read_prefix(still, items, cut, file=file, dtype=self.dtype)
                prefixes.append(prefix)
            self._last = name, prefixes
        return self._last[1]


def save_task_model(model: TaskModel, folder: Path) -> None:
    """Write the model as `from_pretrained` reads it, and beside it the head and what it answers."""
    with quietly():
        merged(model.stack.model).save_pretrained(folder)
    model.stack.tokenizer.save_pretrained(folder)
    head = {name: weight.detach().cpu().contiguous() for name, weight in model.head.state_dict().items()}
    save_file(head, folder / "head.safetensors")
    answers = {"task": model.task.name, "labels": model.labels}
    write_text(folder / "task.json", json.dumps(answers, indent=2) + "\n")


# --- target languages with a model of their own ----------------------------------------------------------------------


def _read_target_models(
    given: Any, sets: TaskSets, stack: Stack, *, plans: Sequence[Plan], half: bool
) -> dict[str, Stack]:
    """The models of target languages, `LANG=FOLDER` or folders by language; they must fit the source's, `stack`.

    A model that was pretrained with `--separate`, or with a vocabulary for each language, is a folder for each of them.
    The source's is trained. A target is tested with its own tokenizer and, of what the plan freezes, with its own
    embeddings and blocks; above them stand the blocks and the head as they were trained (Conneau, Wu et al. 2020,
    Table 1). half: whether they compute in bfloat16, so that a GPU runs their sentences end to end.
    """
    own_models: dict[str, Stack] = {}
    for language, folders in recipe.language_entries(given, "target-models"):
        option, trained = f"--target-models {language}", [each.language for each in sets.trained]
        tested = language in {test.language for test in sets.tests} - set(trained)
        require(tested, f"{option}: it is for a language of --test that is not trained on, as {', '.join(trained)} is")
        single = language not in own_models and len(folders) == 1
        require(single, f"{option}: one folder of a model was expected, {language}=FOLDER")
        own = load(folders[0], dtype="float32", device=stack.device)
        if (own.family.kind, own.last, own.width) != (stack.family.kind, stack.last, stack.width):
            raise InputError(
                f"{option}: {own.name} is {own.width} wide with {own.last} layers and {stack.name} {stack.width} "
                f"wide with {stack.last}; layers of one cannot stand on those of the other"
            )
        own_models[language] = replace(own, pack=half) if stack.device.type == "cuda" else own
    # A part that is the target's own must stay as it was pretrained, and ids must mean what was trained.
    for plan in plans:
        frozen = frozen_at(plan, 0, depth=stack.last, epoch=1)
        if plan.unfreeze is not None or any(block <= frozen for block in plan.reinit):
            raise InputError(
                f"the plan {plan} changes frozen layers, which --target-models takes from the target's model; freeze:N "
                "goes with it"
            )
        for language, own in own_models.items() if frozen < 0 else ():
            pieces, source_pieces = (len(each.model.get_input_embeddings().weight) for each in (own, stack))
            if pieces != source_pieces:
                raise InputError(
                    f"--target-models {language} has {pieces:,} pieces and {stack.name} {source_pieces:,}; with "
                    f"embeddings of its own they must be frozen, as with --plans freeze:0, not {plan}"
                )
    return own_models


# --- languages compared before a task is learned and after (Muller et al. 2021) --------------------------------------

BATCHES = 4  # of sentences, over which Gaussian CKA is averaged

Ways = Mapping[str, tuple[Callable[..., TokenBatch], Mapping[str, Any]]]
"""How Gaussian CKA is taken, by the condition of its rows: how text is encoded, arguments of `cka_rbf_of_pairs`."""


def compared_text(given: Sequence[Bitext | Corpus], *, size: int, shifted: bool) -> Bitext:
    """The one text of --bitext, with sentences enough for batches of this size."""
    text, *more = bitexts_of(given)
    require(not more, f"--bitext holds {1 + len(more)} parallel texts; languages are compared on one")
    fewest = max(4 * BATCHES, size + BATCHES - 1 if shifted else BATCHES * size)
    name, rows = text.name or "the parallel text", text.rows
    require(rows >= fewest, f"{name} has {rows} sentences; comparing languages so takes at least {fewest}")
    return text


def sentence_states(stack: Stack, text: Bitext, ways: Ways, *, dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Sentence vectors (layers, languages, sentences, width), float32, on the stack's device, encoded in each way.

    The sentences come in a seeded random order. dtype: what the model computes in, None for that of its weights.
    """
    order = np.random.default_rng(seed_of(0, "parallel text")).permutation(text.rows).tolist()
    vectors: dict[Any, Tensor] = {}
    for encoding in dict.fromkeys(encoding for encoding, _ in ways.values()):
        sides = []
        for corpus in text:
            with arithmetic(stack.device, dtype), listening(silent):
                chunks = stream(stack, corpus, rows=order, encoding=encoding)
                sides.append(torch.cat([chunk.values["sentence"] for chunk in chunks], dim=1))
            progress("comparing languages", len(sides), len(text.languages))
        vectors[encoding] = torch.stack(sides, dim=1)
    return {condition: vectors[encoding] for condition, (encoding, _) in ways.items()}


def compare_languages(
    now: Mapping[str, Tensor],
    coordinates: Row,
    *,
    text: Bitext,
    ways: Ways,
    source: str,
    start: Mapping[str, Tensor] | None = None,
) -> list[Row]:
    """How alike languages are inside a model, layer by layer, before a task is learned and after.

    On parallel text, with a sentence's vector the mean of its word pieces without special tokens, three comparisons:

        source with target       the same layer of one model                  is what the two say in the same place?
        now with the start       the same layer and language of two models    what did the training change?
        layer k with k - 1       the same language and model                  what does a block do?

    Each by debiased linear CKA with its interval and floor, and by CKA with Gaussian kernels over four batches of a
    quarter of the sentences, as the paper has it; where there are more ways, by Gaussian CKA in each of them, too.

    now, start: `sentence_states` of a model, and of the one before any training; None where that is this one.
    """
    about = {**coordinates, "data": text.name or "parallel text", "unit": "sentence"}
    languages, rows = text.languages, list[Row]()
    for condition, (_, how) in ways.items():
        about |= {"condition": condition} if condition else {}
        for layer, states in enumerate(now[condition]):
            others: list[tuple[Tensor, dict[str, Any]]] = []
            if layer:
                others.append((now[condition][layer - 1], {"other_layer": layer - 1}))
            if start:
                others.append((start[condition][layer], {"other_layer": layer, "other_model": START}))
            pairs: dict[tuple[int, int], dict[str, Any]] = {}  # which two sides are compared, and as what
            for number, language in enumerate(languages) if source in languages else ():
                if language != source:
                    pairs[languages.index(source), number] = {"target": language}
            for number, language in enumerate(languages):
                for position, (_, where) in enumerate(others, 1):
                    pairs[number, len(languages) * position + number] = {"target": language, **where}
            sides = torch.cat([states, *(side for side, _ in others)])  # (sides, sentences, width)
            estimates = {} if condition else {"cka": cka_of_pairs(sides, list(pairs))}
            estimates["cka_rbf"] = cka_rbf_of_pairs(sides, list(pairs), batches=BATCHES, **how)
            for measure, values in estimates.items():
                for cka, where in zip(values, pairs.values(), strict=True):
                    rows.append(row(measure, cka, **about, layer=layer, **where))
    return rows


def encode_written_specials(tokenizer: Any, corpus: Corpus, rows: Sequence[int], **how: Any) -> TokenBatch:
    """`encode` of text with special tokens written into it, of which the written ones count as content."""
    first, last = tokenizer.cls_token, tokenizer.sep_token
    if first is None or last is None:
        raise InputError(f"{tokenizer.name_or_path} has no first and last token to write into the text")
    written = replace(corpus, sentences=[f"{first} {sentence} {last}" for sentence in corpus], words=None)
    batch = encode(tokenizer, written, rows, **how)
    ends = torch.cumsum(batch.lengths, 0)
    content = torch.ones_like(batch.content)
    content[ends - batch.lengths] = content[ends - 1] = False
    return replace(batch, content=content)
