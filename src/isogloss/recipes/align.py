"""`isogloss align`: bring the languages of a masked LM together with parallel text, after its pretraining.

Pan et al. (2021) train a multilingual model further on pairs of translations, with two losses at once: TLM, which
predicts masked words from both languages, and a contrastive one, which brings a sentence nearer to its translation than
to others (momentum contrast). Pairs are packed into token ids on disk, so that memory does not grow with the text.
Retrieval at every layer and perplexity of every language are read on the way: what was gained, and what it cost.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import torch

from isogloss.errors import InputError
from isogloss.files import clear_leftovers, whole_folder, write_text
from isogloss.progress import Progress, silent
from isogloss.recipes.recipe import (
    OPTIMISER,
    RARE,
    CheckpointEvery,
    Compiled,
    Device,
    LanguageFiles,
    MicroBatch,
    Option,
    Out,
    Resume,
    Revision,
    Seed,
    TrainDtype,
    Work,
    at_least,
    compiles,
    half_precision,
    joined_corpus,
    language_files,
    model_name,
    one_of,
    one_process,
    optimisation,
    recipe,
    share_of,
)
from isogloss.recipes.steps.aligning import (
    BestRetrieval,
    align_card,
    align_row,
    best_note,
    make_probes,
    objective_name,
)
from isogloss.recipes.steps.aligntext import first_sentences, languages_of, pack_aligned, pack_shared, pair_facts
from isogloss.recipes.steps.legacy import without_dropout
from isogloss.recipes.steps.probing import parallel_texts
from isogloss.runs.run import Run
from isogloss.runs.table import Row
from isogloss.stack.load import choose_device, load_masked_lm, quietly
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.readers.parallel import find_pairs
from isogloss.text.streams import borders_of
from isogloss.text.words import LOOKED_AT, unknown_notes
from isogloss.training import checkpoints as kept
from isogloss.training.alignment import NEGATIVES, POOLS, PROJECTIONS, Aligner, Alignment, align_pairs
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.heads import fingerprint, head_of
from isogloss.training.loop import Settings, Training
from isogloss.training.loop import train as train_loop
from isogloss.training.masked_lm import masking_of
from isogloss.training.processes import join
from isogloss.training.stopping import Choice

SHORTEST = 8  # tokens of a pair that are worth reading


@recipe
def align(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    train_bitext: Annotated[
        LanguageFiles | Bitext | str | Path,
        "pairs to learn from, as en-nl=FILE,FILE or en-nl=TABLE; or a table, or a folder",
    ],
    evaluate: Annotated[
        LanguageFiles | None, "text to measure perplexity on, LANG=FILE; default: what is held out"
    ] = None,
    held_out: Annotated[float, "share of the pairs, at most 1,000 of two languages, to measure on"] = 0.02,
    tlm: Annotated[float, "weight of TLM; 0 for none (the paper gives no weights; default: equal ones)"] = 1.0,
    contrastive: Annotated[
        float, "weight of contrast; 0 for none (the paper gives no weights; default: equal ones)"
    ] = 1.0,
    negatives: Annotated[
        str, "queue: momentum contrast, as in the paper; batch: the other pairs of the batch"
    ] = "queue",
    queue: Annotated[int, "translations in the queue, a multiple of --batch (default: MoCo's)"] = 65_536,
    momentum: Annotated[float, "of the encoder that fills the queue (default: MoCo's; InfoXLM 0.9999)"] = 0.999,
    temperature: Annotated[float, "of the contrastive loss (default: MoCo's; Wu & Dredze 0.1)"] = 0.07,
    projection: Annotated[str, "between sentence and loss: none, linear or mlp (default: MoCo v2's)"] = "mlp",
    projection_width: Annotated[int, "width of the projection (default: MoCo's)"] = 128,
    pooling: Annotated[str, "a sentence is its first token, as in the paper, or the mean of its content"] = "first",
    layer: Annotated[int | None, "layer sentences are compared at; default the last, as in the paper"] = None,
    shuffle: Annotated[bool, "a coin decides which side comes first and is the query, as in the paper"] = True,
    reset_positions: Annotated[bool, "positions of the second sentence begin anew, as in XLM"] = False,
    mask_share: Annotated[float, "share of the tokens that TLM predicts (default: the paper's)"] = 0.15,
    pull: Annotated[float, "weight of the distance to the original weights (Wu & Dredze 1.0)"] = 0.0,
    exponent: Annotated[float, "pairs of languages by their size to this power (default: XLM's)"] = 0.7,
    length: Annotated[int | None, "most tokens of a pair; default what the model reads (Wu & Dredze 96)"] = None,
    batch: Annotated[int, "pairs in a batch (default: our choice; InfoXLM 2048)"] = 128,
    steps: Annotated[int, "updates (default: our choice; InfoXLM 200,000)"] = 2_000,
    rate: Annotated[float, "highest learning rate (default: BERT's for tuning; InfoXLM 2e-4)"] = 5e-5,
    warm_up: Annotated[
        float, Option("share of the updates until the rate is highest (default: our choice; InfoXLM 0.05)", OPTIMISER)
    ] = 0.1,
    decay: Annotated[str, "linear, cosine, trapezoid, inverse-sqrt or constant (default: BERT's)"] = "linear",
    weight_decay: Annotated[float, "AdamW's weight decay of matrices (default: InfoXLM's)"] = 0.01,
    clip: Annotated[float, "largest norm of the gradient; 0 for any (default: InfoXLM's)"] = 1.0,
    dropout: Annotated[
        bool, "the model's own dropout while it trains, in both encoders (the paper does not say)"
    ] = True,
    micro_batch: MicroBatch = None,
    compiled: Compiled = "no",
    report: Annotated[int, "updates between readings of the losses"] = 50,
    probe: Annotated[int, "updates between readings of retrieval and perplexity"] = 500,
    best: Annotated[bool, "leave the model of the step with the best P@1 at --layer, not the last"] = False,
    packed: Annotated[
        str | None, Option("folder where runs share packed pairs; they stay there", RARE, recorded=False)
    ] = None,
    checkpoint: CheckpointEvery = 500,
    revision: Revision = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: TrainDtype = None,
    out: Out = None,
    resume: Resume = False,
    progress: Progress = silent,
) -> Work:
    """Train a model further on parallel text, so that sentences and words meet their translations.

    Example: isogloss align mini --train-bitext en-nl=en.txt,nl.txt --train-bitext en-de=pairs.tsv --out runs/aligned
    """
    one_process("align")
    place = choose_device(device)
    sources = find_pairs(cast(Any, train_bitext))
    texts = [joined_corpus(one, files) for one, files in language_files(evaluate or [], option="evaluate").items()]
    source, stack = load_masked_lm(model, revision, device=place)
    head_of(source.config)
    how = Alignment(
        _layer(layer, stack),
        at_least("tlm", tlm, 0),
        at_least("contrastive", contrastive, 0),
        at_least("pull", pull, 0),
        cast(Any, one_of("negatives", negatives, NEGATIVES)),
        at_least("queue", queue, 1),
        share_of("momentum", momentum),
        at_least("temperature", temperature, 1e-4),
        cast(Any, one_of("projection", projection, PROJECTIONS)),
        at_least("projection_width", projection_width, 1),
        cast(Any, one_of("pooling", pooling, POOLS)),
        shuffle,
        reset_positions,
        share_of("mask_share", mask_share, zero=False),
    )
    _refuse_unfit(how, stack, at_least("batch", batch, 1), micro_batch)
    longest = _longest(length, stack)
    settings = Settings(
        at_least("steps", steps, 0),
        at_least("seed", seed, 0),
        optimisation(
            steps=steps,
            rate=rate,
            warm_up=warm_up,
            decay=decay,
            weight_decay=weight_decay,
            clip=clip,
            betas=(0.9, 0.98),
            epsilon=1e-6,
        ),
        report=at_least("report", report, 1),
        piece=None if micro_batch is None else at_least("micro_batch", micro_batch, 1),
        half=half_precision(dtype, place),
    )
    if packed is not None and Path(packed).is_file():
        raise InputError(f"--packed {packed} is a file; give a folder")
    share, every = share_of("held_out", held_out), at_least("probe", probe, 1)
    at_least("checkpoint", checkpoint, 1), at_least("exponent", exponent, 0)
    given = parallel_texts(bitext, languages_of(sources)) if bitext else []
    name, called = model_name(model), objective_name(how)
    known = [one for text in (*(side for each in given for side in each), *texts) for one in text]

    def work(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        fits: dict[str, Any] = {"stack": stack, "longest": longest, "share": share, "known": known}
        if packed is None:
            text = pack_aligned(sources, run.scratch / "pairs", progress=progress, **fits)
        else:
            text = pack_shared(sources, Path(packed), progress=progress, **fits)
        for sentence in (*text.notes, *unknown_notes(stack.tokenizer, first_sentences(sources, LOOKED_AT))):
            run.note(sentence)
        if not dropout:
            without_dropout(source)
        aligner = Aligner(source, stack, how, seed=seed)
        feed: dict[str, Any] = {
            "borders": borders_of(stack.tokenizer),
            "batch": batch,
            "longest": longest,
            "exponent": exponent,
            "compiled": compiles(compiled, place, auto=False),
        }
        masking = masking_of(stack.tokenizer)
        objective = align_pairs(aligner, text.pairs, seed=seed, device=place, half=settings.half, **feed, **masking)
        training = Training(aligner, objective, settings, join(place))
        probes = make_probes(
            run, aligner, stack, parallel=given or text.bitexts(), corpora=texts or text.corpora(), every=every,
            report=report, best=best, seed=seed, dtype=torch.bfloat16 if settings.half else None,
        )  # fmt: skip

        def export(at: Path) -> None:
            with quietly():
                source.save_pretrained(at)
            stack.tokenizer.save_pretrained(at)

        checkpoints = Checkpoints(run.folder / "checkpoints", export, checkpoint)
        clear_leftovers(checkpoints.folder)
        if (last := kept.latest(checkpoints.folder)) is not None:
            training.restore(last)
        by = BestRetrieval(how.layer)
        choice = cast(Choice, by) if best else None
        where = {"model": name, "plan": called, "seed": seed}
        training_steps = train_loop(
            training, probes=probes, checkpoints=checkpoints, selection=choice, progress=progress
        )
        for readings in training_steps:
            yield [found for one in readings if (found := align_row(one, where)) is not None]
        chosen = training.best_step if best and training.best_step is not None else training.step
        if chosen < training.step:
            run.note(best_note(by, chosen, training.step))
        with whole_folder(run.folder / "model") as beside:
            if best and (checkpoints.folder / "best").is_dir():
                shutil.copytree(checkpoints.folder / "best", beside, dirs_exist_ok=True)
            else:
                export(beside)
            card = align_card(run, training, text, step=chosen, batch=batch, how=how)
            write_text(beside / "README.md", card)

    def hashes(progress: Progress) -> dict[str, Any]:
        read: dict[str, Any] = {"bitext": [one.fingerprint for one in bitext]} if bitext else {}
        read |= {"evaluate": {one.language: one.fingerprint for one in texts}} if texts else {}
        return {"model": fingerprint(source, stack), "data": pair_facts(sources, progress), **read}

    return Work(name, work, hashes, depth=stack.cuts[-1])


def _layer(layer: int | None, stack: Stack) -> int:
    if layer is not None and layer not in stack.cuts:
        raise InputError(f"{stack.name} has layers 0 to {stack.cuts[-1]}; --layer asks for {layer}")
    return stack.cuts[-1] if layer is None else layer


def _longest(length: int | None, stack: Stack) -> int:
    if length is not None and not SHORTEST <= length <= stack.max_length:
        raise InputError(f"--length must be {SHORTEST} to {stack.max_length}, which {stack.name} reads, not {length}")
    return length or stack.max_length


def _refuse_unfit(how: Alignment, stack: Stack, batch: int, micro_batch: int | None) -> None:
    """Refuse options that do not go together, before any text is read."""
    if not how.tlm and not how.contrastive:
        raise InputError("--tlm 0 and --contrastive 0 leave nothing to learn; give one of them a weight")
    if how.queued and how.size < batch:
        raise InputError(f"--queue {how.size} holds fewer than a batch of {batch}; raise it, or take --negatives batch")
    if how.queued and how.size % batch:
        low = how.size // batch * batch
        raise InputError(
            f"--queue {how.size} is not a multiple of --batch {batch}, so that a batch would be split at its end; give "
            f"--queue {low} or {low + batch}"
        )
    if how.contrastive and how.negatives == "batch":
        if batch < 2:
            raise InputError("--negatives batch takes them from the batch, so --batch must be at least 2")
        if micro_batch is not None:
            raise InputError(
                "--micro-batch splits the batch that --negatives batch compares; leave it out, or take a queue"
            )
    if how.reset and not stack.family.packs:
        raise InputError(f"--reset-positions: {stack.name} works positions out by itself; leave it out")
