"""`isogloss align`: align the languages of a pretrained masked LM by further training on parallel text.

Pan et al. (2021) train a multilingual model further on pairs of translations, with two losses at once: TLM, which
predicts masked words from both languages, and a contrastive loss, which brings a sentence closer to its translation
than to other sentences (momentum contrast). Pairs are packed into token ids on disk, so that memory does not grow with
the text. Retrieval at every layer and the perplexity of every language are measured during training.

Pairs are held out for evaluation by the hash of their first sentence (`isogloss.text.sampling.hash_fraction`), so the
split depends neither on a seed nor on the order of a file. A pair that contains any held-out sentence is not trained
on, whatever its languages are: English that is evaluated with Dutch is not learned with German. The same holds for
pairs that contain a sentence of the text given for evaluation.
"""

import hashlib
import heapq
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, cast

import torch

from isogloss.errors import InputError, readable, require
from isogloss.files import clear_leftovers, one_at_a_time, whole_folder, write_text
from isogloss.progress import listening, silent
from isogloss.recipes import recipe, training_options
from isogloss.recipes.model_card import markdown_table, optimiser_facts, perplexity_lines, training_card
from isogloss.recipes.recipe import RARE, LanguageFiles, Option
from isogloss.runs.run import Run
from isogloss.runs.table import Row, frame
from isogloss.stack.edit import without_dropout
from isogloss.stack.families import trainable_family
from isogloss.stack.load import choose_device, fingerprint, load_trainable, save_language_model
from isogloss.stack.stack import Stack
from isogloss.text.batches import tokenise
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.languages import name as language_name
from isogloss.text.masking import masking_of
from isogloss.text.readers.parallel import Pair, PairSource, find_pairs, joined_corpus
from isogloss.text.sampling import hash_fraction
from isogloss.text.streams import UNREADABLE, PairStream, borders_of, open_pairs, pack_pairs
from isogloss.training.alignment import Aligner, Alignment, Negatives, Pool, Projection, align_pairs
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.loop import Optimisation, Settings, Training, join
from isogloss.training.perplexities import perplexity_probe
from isogloss.training.probes import Probe, retrieval_probe
from isogloss.training.stopping import select_by

SHORTEST = 8  # smallest maximum length of a pair, in tokens
MOST_HELD_OUT = 1_000  # held-out pairs per pair of languages, at most
LEAST_HELD_OUT = 8  # with fewer held-out pairs, retrieval is not measured


@recipe.recipe
def align(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    train_bitext: Annotated[
        LanguageFiles | Bitext | str | Path,
        "pairs to train on, as en-nl=FILE,FILE or en-nl=TABLE; or a table, or a folder",
    ],
    evaluate: Annotated[
        LanguageFiles | None, "text to measure perplexity on, LANG=FILE; default: the held-out pairs"
    ] = None,
    held_out: Annotated[recipe.Share, "share of the pairs held out, at most 1,000 per pair of languages"] = 0.02,
    tlm: Annotated[recipe.NonNegativeFloat, "weight of TLM; 0 for none (the paper gives none; default: equal)"] = 1.0,
    contrastive: Annotated[
        recipe.NonNegativeFloat, "weight of the contrastive loss; 0 for none (the paper gives none; default: equal)"
    ] = 1.0,
    negatives: Annotated[Negatives, "queue: momentum contrast, as in the paper; batch: in-batch negatives"] = "queue",
    queue: Annotated[recipe.PositiveInt, "translations in the queue, a multiple of --batch (default: MoCo's)"] = 65_536,
    momentum: Annotated[recipe.Share, "momentum of the key encoder (default: MoCo's; InfoXLM 0.9999)"] = 0.999,
    temperature: Annotated[float, Option("softmax temperature (default: MoCo's; Wu & Dredze 0.1)", least=1e-4)] = 0.07,
    projection: Annotated[Projection, "projection head: none, linear or mlp (default: MoCo v2's)"] = "mlp",
    projection_width: Annotated[recipe.PositiveInt, "width of the projection (default: MoCo's)"] = 128,
    pooling: Annotated[Pool, "first: the first token, as in the paper; mean: the mean of content tokens"] = "first",
    layer: Annotated[int | None, "layer where sentences are compared; default the last, as in the paper"] = None,
    shuffle: Annotated[bool, "randomly choose which side comes first and is the query, as in the paper"] = True,
    reset_positions: Annotated[bool, "restart positions at the second sentence, as in XLM"] = False,
    mask_share: Annotated[recipe.PositiveShare, "share of the tokens that TLM predicts (default: the paper's)"] = 0.15,
    pull: Annotated[recipe.NonNegativeFloat, "weight of the distance to the original weights (Wu & Dredze 1.0)"] = 0.0,
    exponent: Annotated[recipe.NonNegativeFloat, "sample languages by size to this power (default: XLM's)"] = 0.7,
    length: Annotated[int | None, "most tokens per pair; default the model's maximum (Wu & Dredze 96)"] = None,
    batch: Annotated[recipe.PositiveInt, "pairs in a batch (default: our choice; InfoXLM 2048)"] = 128,
    steps: Annotated[recipe.NonNegativeInt, "updates (default: our choice; InfoXLM 200,000)"] = 2_000,
    rate: training_options.Rate = 5e-5,
    warm_up: training_options.WarmUp = 0.1,
    decay: training_options.DecayName = "linear",
    weight_decay: training_options.WeightDecay = 0.01,
    clip: training_options.Clip = 1.0,
    dropout: Annotated[bool, "the model's own dropout in training, in both encoders (the paper does not say)"] = True,
    micro_batch: training_options.MicroBatch = None,
    compiled: training_options.Compiled = "no",
    report: Annotated[recipe.PositiveInt, "updates between readings of the losses"] = 50,
    probe: Annotated[recipe.PositiveInt | None, "updates between readings of retrieval and perplexity"] = 500,
    best: Annotated[bool, "keep the model of the step with the best P@1 at --layer, not the last"] = False,
    packed: Annotated[str | None, Option("folder of packed pairs that runs share", RARE, recorded=False)] = None,
    checkpoint: training_options.CheckpointEvery = 500,
    revision: recipe.Revision = None,
    seed: recipe.Seed = 0,
    device: recipe.Device = "auto",
    dtype: training_options.TrainDtype = None,
    out: recipe.Out = None,
    resume: recipe.Resume = False,
) -> recipe.Work:
    """Train a model further on parallel text, so that translations get similar vectors.

    The learning rate and its decay are BERT's for fine-tuning (InfoXLM uses 2e-4 and a warm-up of 0.05); weight decay
    and clipping are InfoXLM's.

    Example: isogloss align mini --train-bitext en-nl=en.txt,nl.txt --train-bitext en-de=pairs.tsv --out runs/aligned
    """
    training_options.one_process("align")
    hardware = choose_device(device)
    sources = find_pairs(cast(Any, train_bitext), option="train-bitext")
    evaluated = recipe.language_files(evaluate or [], option="evaluate")
    texts = [joined_corpus(code, files) for code, files in evaluated.items()]
    source, stack = load_trainable(model, revision, device=hardware)
    require(not stack.causal, f"{model} is a decoder; align trains masked language models")
    trainable_family(source.config)
    how = Alignment(
        layer=stack.cuts[-1] if layer is None else layer,
        tlm=tlm,
        contrastive=contrastive,
        pull=pull,
        negatives=negatives,
        queue=queue,
        momentum=momentum,
        temperature=temperature,
        projection=projection,
        projection_width=projection_width,
        pooling=pooling,
        shuffle=shuffle,
        reset_positions=reset_positions,
        mask_share=mask_share,
    )
    longest = stack.max_length if length is None else length
    _refuse_mistakes(how, stack, longest=longest, batch=batch, micro_batch=micro_batch)
    schedule = Optimisation(rate, round(warm_up * steps), decay, weight_decay, clip)
    settings = Settings(steps, seed, schedule, report, half=training_options.half_precision(dtype, hardware))
    require(packed is None or not Path(packed).is_file(), f"--packed {packed} is a file; give a folder")
    languages = list(dict.fromkeys(language for pairs in sources for language in pairs.languages))
    given = training_options.parallel_texts(bitext, languages) if bitext else []
    measured = [sentence for text in (*(side for text in given for side in text), *texts) for sentence in text]
    coordinates = {"model": recipe.model_name(model), "plan": objective_name(how), "seed": seed}

    def rows(run: Run) -> Iterator[Sequence[Row]]:
        packing: dict[str, Any] = {"longest": longest, "share": held_out, "measured": measured}
        folder = run.scratch / "pairs"
        if packed is not None:  # in a folder named by a hash of everything the packed pairs depend on
            facts = {"pairs": pair_facts(sources), "tokenizer": stack.tokenizer.backend_tokenizer.to_str()}
            facts |= {"longest": longest, "share": held_out, "known": sorted(map(hash_fraction, measured))}
            folder = Path(packed) / hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
        with one_at_a_time(folder):  # if several processes need the same pairs, one packs and the others wait
            packed_pairs = pack_text(sources, folder, stack=stack, **packing)
        first_sentences = [
            Corpus(language, [pair[number] for pair in islice(pairs.open(), recipe.LOOKED_AT)], name=pairs.name)
            for pairs in sources
            for number, language in enumerate(pairs.languages)
        ]
        for note in (*packed_pairs.notes, *recipe.unknown_notes(stack.tokenizer, first_sentences)):
            run.note(note)
        if not dropout:
            without_dropout(source)
        aligner = Aligner(source, stack, how, seed=seed)
        drawing: dict[str, Any] = {"batch": batch, "longest": longest, "exponent": exponent, "seed": seed}
        drawing |= {"piece": micro_batch, "compiled": compiled == "yes"}
        marks: dict[str, Any] = {"borders": borders_of(stack.tokenizer), "masking": masking_of(stack.tokenizer)}
        objective = align_pairs(aligner, packed_pairs.streams, device=hardware, **drawing, **marks)
        training = Training(aligner, objective, settings, join(hardware))
        parallel, corpora = given or packed_pairs.bitexts(), texts or packed_pairs.corpora()
        if not parallel:
            require(
                not best,
                "--best chooses by retrieval, and too few pairs were held out to measure it; raise --held-out, give "
                "--bitext, or leave --best out",
            )
            run.note("no retrieval is measured: too few pairs were held out; raise --held-out or give --bitext")
        probes, every = [Probe(report, aligner.losses)], probe or max(1, steps)
        if parallel:
            probes.append(retrieval_probe(lambda language: stack, parallel, every=every))
        if corpora:
            with listening(silent):
                tokenised = [tokenise(stack.tokenizer, corpus, max_length=stack.max_length) for corpus in corpora]
            masked: dict[str, Any] = {"every": every, "seed": seed, "device": stack.device, "masking": marks["masking"]}
            masked |= {"dtype": torch.bfloat16 if settings.half else None, "target": ""}
            probes.append(perplexity_probe(source, tokenised, **masked))
        export = partial(save_language_model, source, stack.tokenizer)
        checkpoints = Checkpoints(run.folder / "checkpoints", export, every=checkpoint)
        selection = select_by("p@1_mean", layer=how.layer) if best else None
        taken: dict[str, Any] = {"checkpoints": checkpoints, "probes": probes, "selection": selection}
        for read in training_options.training_rows(training, coordinates, loss={"data": "train"}, **taken):
            # The total loss has no task; it is dropped, since each of its terms has a row. The perplexity probe has no
            # target language here, so its pooled `others` are all languages.
            kept = [entry for entry in read if "task" in entry or entry["measure"] != "loss"]
            yield [{**entry, "target": "all"} if entry.get("target") == "others" else entry for entry in kept]
        # Save the last model, or the best one, with its card.
        step = training.best_step if best and training.best_step is not None else training.step
        if step < training.step:
            highest = f"mean P@1 at layer {how.layer}"
            which = f"that of step {step:,} of {training.step:,}, where {highest} was highest on the text that is read"
            if not step:
                which = f"the one it began with, before any update: {highest} was never higher after it"
            run.note(f"--best: the model is {which}")
        with whole_folder(run.folder / "model") as model_folder:
            if best and (checkpoints.folder / "best").is_dir():
                shutil.copytree(checkpoints.folder / "best", model_folder, dirs_exist_ok=True)
            else:
                export(model_folder)
            card = alignment_card(run, training, packed_pairs, step=step, batch=batch, how=how)
            write_text(model_folder / "README.md", card)

    def hashes() -> dict[str, Any]:
        compared: dict[str, Any] = {"bitext": [text.fingerprint for text in bitext]} if bitext else {}
        compared |= {"evaluate": {text.language: text.fingerprint for text in texts}} if texts else {}
        return {"model": fingerprint(source, stack), "data": pair_facts(sources), **compared}

    return recipe.Work(recipe.model_name(model), rows, hashes, depth=stack.cuts[-1])


def _refuse_mistakes(how: Alignment, stack: Stack, *, longest: int, batch: int, micro_batch: int | None) -> None:
    """Refuse options that contradict each other or the model."""
    most, queue, whole = stack.max_length, how.queue, how.queue // batch * batch
    require(how.layer in stack.cuts, f"{stack.name} has layers 0 to {stack.cuts[-1]}; --layer asks for {how.layer}")
    fits = min(SHORTEST, most) <= longest <= most
    require(fits, f"--length must be {SHORTEST} to {most}, which {stack.name} reads, not {longest}")
    require(how.tlm or how.contrastive, "--tlm 0 and --contrastive 0 leave nothing to learn; give one of them a weight")
    if how.queued:
        too_few = f"--queue {queue} holds fewer than a batch of {batch}; raise it, or take --negatives batch"
        require(queue >= batch, too_few)
        require(
            queue == whole,
            f"--queue {queue} is not a multiple of --batch {batch}, so that a batch would be split at its end; give "
            f"--queue {whole} or {whole + batch}",
        )
    elif how.contrastive:
        require(batch >= 2, "--negatives batch takes them from the batch, so --batch must be at least 2")
        split = "--micro-batch splits the batch that --negatives batch compares; leave it out, or take a queue"
        require(micro_batch is None, split)
    if how.reset_positions:
        require(stack.family.packs, f"--reset-positions: {stack.name} works positions out by itself; leave it out")


def objective_name(how: Alignment) -> str:
    """The name of the training objective, used as the plan in the rows.

    >>> objective_name(Alignment(layer=12))
    'tlm+queue'
    >>> objective_name(Alignment(layer=12, tlm=0, negatives="batch", shuffle=False))
    'batch+unshuffled'
    """
    parts = {
        "tlm": how.tlm,
        how.negatives: how.contrastive,
        "pull": how.pull,
        "reset": how.reset_positions,
        "unshuffled": not how.shuffle,
    }
    return "+".join(name for name, present in parts.items() if present)


# --- pairs to train on and to measure on -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PackedPairs:
    """Training pairs, held-out pairs, and the number of pairs left out, by languages (`en-nl`).

    left_out: counts pairs that contain a sentence of the text given for evaluation.
    """

    streams: Mapping[str, PairStream]
    held_out: Mapping[str, Sequence[Pair]]
    left_out: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        """Sentences on pairs that were left out or truncated."""
        notes = []
        for title, stream in self.streams.items():
            counts = {
                "have an empty side and were left out": stream.left_out,
                "are longer than the model reads, and are cut": stream.cut,
                "have a sentence that is measured on, and were left out": self.left_out[title],
            }
            notes += [f"{title}: {count:,} pairs {what}" for what, count in counts.items() if count]
        return notes

    def bitexts(self) -> list[Bitext]:
        """The held-out pairs as text for retrieval; languages with fewer than `LEAST_HELD_OUT` pairs are dropped."""
        bitexts = []
        for title, pairs in self.held_out.items():
            if len(pairs) >= LEAST_HELD_OUT:
                sides = zip(self.streams[title].languages, zip(*pairs, strict=True), strict=True)
                bitexts.append(Bitext(tuple(Corpus(language, list(side)) for language, side in sides), name=title))
        return bitexts

    def corpora(self) -> list[Corpus]:
        """The distinct held-out sentences of each language, as text for perplexity."""
        sentences: dict[str, dict[str, None]] = {}
        for title, pairs in self.held_out.items():
            for number, language in enumerate(self.streams[title].languages):
                sentences.setdefault(language, {}).update((pair[number], None) for pair in pairs)
        return [
            Corpus(language, list(distinct), name="held-out") for language, distinct in sentences.items() if distinct
        ]


def pack_text(
    sources: Sequence[PairSource], folder: Path, *, stack: Stack, longest: int, share: float, measured: Sequence[str]
) -> PackedPairs:
    """Pack pairs into token ids in `folder`, or read those that are there already.

    Args:
        sources: Where the pairs come from.
        folder: Gets the packed pairs, and the held-out pairs in `pairs.json`.
        stack: Its tokenizer is used.
        longest: Maximum number of tokens per pair.
        share: Share of the pairs that is held out.
        measured: Sentences of the text given for evaluation.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "pairs.json"
    if not record.is_file():
        clear_leftovers(folder)
        titles = dict.fromkeys(source.title for source in sources)
        by_title = {title: [source for source in sources if source.title == title] for title in titles}
        held_out = {}
        for title, title_sources in by_title.items():
            # Hold out the pairs whose first sentence has the lowest hashes, if these are below the share.
            all_pairs = (pair for source in title_sources for pair in source.open()) if share else ()
            hashed = ((hash_fraction(pair[0]), pair) for pair in all_pairs if all(side.strip() for side in pair))
            lowest = heapq.nsmallest(MOST_HELD_OUT, (entry for entry in hashed if entry[0] < share))
            held_out[title] = [pair for _, pair in lowest]
        held_hashes = {hash_fraction(side) for pairs in held_out.values() for pair in pairs for side in pair}
        measured_hashes = {hash_fraction(sentence) for sentence in measured}
        counts = Counter[tuple[str, str]]()  # excluded pairs, by title and reason

        def trained_on(title: str) -> Iterator[Pair]:
            for pair in (pair for source in by_title[title] for pair in source.open()):
                hashes = {hash_fraction(side) for side in pair}
                if not all(side.strip() for side in pair):
                    yield "", ""  # counted as left out by `pack_pairs`
                elif hashes & measured_hashes:
                    counts[title, "measured"] += 1
                elif hashes & held_hashes:
                    counts[title, "held out"] += 1
                else:
                    yield pair

        facts = {}
        for title, title_sources in by_title.items():
            path, languages = folder / f"{title}.npy", title_sources[0].languages
            stream = pack_pairs(stack.tokenizer, trained_on(title), path, languages=languages, longest=longest)
            held, left_out = counts[title, "held out"], counts[title, "measured"]
            if not len(stream):
                other = left_out > held
                raise InputError(
                    f"--train-bitext {title}: no pair is left to train on: {stream.left_out:,} have an empty side, "
                    f"{held:,} a sentence that is held out, {left_out:,} one of the text given to measure on; give "
                    f"{'--bitext or --evaluate other text' if other else 'more text or a smaller --held-out'}"
                )
            facts[title] = {"held": held_out[title], "measured": left_out}
        write_text(record, json.dumps(facts, ensure_ascii=False))
    with readable(record, *UNREADABLE):
        known = json.loads(record.read_text(encoding="utf-8"))
        return PackedPairs(
            {title: open_pairs(folder / f"{title}.npy") for title in known},
            {title: [(first, second) for first, second in facts["held"]] for title, facts in known.items()},
            {title: facts["measured"] for title, facts in known.items()},
        )


def pair_facts(sources: Sequence[PairSource]) -> dict[str, Any]:
    """Facts that identify these pairs: the hash of every file, or of text in memory."""
    files: dict[str, list[Path]] = {}
    for source in sources:
        files.setdefault(source.title, []).extend(source.files)
    in_memory = [(source.title, source.mark) for source in sources if source.mark]
    return {**recipe.describe_files(files), **({"in memory": in_memory} if in_memory else {})}


# --- the model's card ------------------------------------------------------------------------------------------------


def alignment_card(run: Run, training: Training, pairs: PackedPairs, *, step: int, batch: int, how: Alignment) -> str:
    """The card of the saved model, which is that of `step`."""
    languages = list(dict.fromkeys(language for stream in pairs.streams.values() for language in stream.languages))
    names = ", ".join(language_name(language) for language in languages)
    name = run.facts["model"]
    pooled = "first token" if how.pooling == "first" else "mean of content tokens"
    facts = {
        "learned": objective_name(how),
        "weights of the terms": f"TLM {how.tlm:g}, contrastive {how.contrastive:g}, pull {how.pull:g}",
        "sentences": f"{pooled} at layer {how.layer}, projection {how.projection}, temperature {how.temperature:g}",
        "negatives": f"a queue of {how.queue:,}, momentum {how.momentum:g}" if how.queued else "the batch",
        "steps": f"{step:,} of {training.settings.steps:,}, {batch} pairs each",
        "optimiser": optimiser_facts(training.settings.optimisation),
        "seed": training.settings.seed,
    }
    counts = [(title, f"{len(stream):,}", f"{len(stream.ids):,}") for title, stream in pairs.streams.items()]
    until = [reading for reading in run.rows if int(reading["step"]) <= step]
    read = frame(until).sort_values("step", kind="stable")
    precision = read[(read["measure"] == "p@1_mean") & (read["layer"] == how.layer)]
    held_out = perplexity_lines(until)
    if len(precision):
        curves = precision.groupby("data", sort=False)["value"]
        table = [(str(data), f"{curve.iloc[0]:.3f}", f"{curve.iloc[-1]:.3f}") for data, curve in curves]
        lines = markdown_table(("text", "P@1 before", "P@1 after"), table)
        held_out = [f"Retrieval at layer {how.layer}, centred, both directions.", "", *lines, "", *held_out]
    return training_card(
        run,
        title=f"{name}, aligned",
        summary=[f"{name}, trained further on parallel text of {names} with `isogloss align`."],
        facts=facts,
        text=markdown_table(("languages", "pairs", "tokens"), counts),
        held_out=held_out,
        languages=languages,
    )
