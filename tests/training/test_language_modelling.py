"""Masked language modelling: which rows a step has, what is masked in them, and their loss, against transformers'."""

import copy

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from isogloss.errors import InputError
from isogloss.text.batches import fit
from isogloss.text.masking import IGNORE, Masking, slots
from isogloss.text.sampling import ItemSampler, Sampler
from isogloss.text.streams import texts_of
from isogloss.training import language_modelling as module
from isogloss.training.checkpoints import Checkpoints, latest
from isogloss.training.language_modelling import coins, language_modelling, token_loss
from isogloss.training.loop import Optimisation, Processes, Settings, Training
from isogloss.training.sharing import build, parse
from tiny_models import ENCODERS, tiny_config
from tiny_processes import together

LENGTH, BATCH, MASK, MARKS = 16, 6, 4, [0, 1, 2, 3, 4]
SIZES, DEVICE = {"en": 60, "nl": 50}, torch.device("cpu")
ALONE = Processes(0, 1, DEVICE)


def text(tokens, size, seed):
    ids = np.random.default_rng(seed).integers(5, size, tokens).astype(np.uint16)
    ids[::9] = 2
    return ids


STREAMS = {"en": text(600, 50, 0), "nl": text(200, 50, 1)}
POOLS = {"en": torch.arange(5, 60), "nl": torch.arange(5, 50)}
MASKING = {language: Masking(MASK, MARKS, pool) for language, pool in POOLS.items()}


def models(separate="nothing"):
    config = tiny_config("bert", 60)
    if separate == "embeddings":
        config = {one: tiny_config("bert", size) for one, size in SIZES.items()}
    return build(config, list(STREAMS), sharing=parse(separate), seed=0)


def objective(separate="nothing", seed=0, *, of=None, **changes):
    options = {"batch": BATCH, "length": LENGTH, "masking": MASKING, "seed": seed}
    return language_modelling(of or models(separate), STREAMS, device=torch.device("cpu"), **options | changes)


FRAME = [(2,), (3,)]


def paragraphs_of(count, seed):
    """Paragraphs between their special tokens, of 1 to 30 tokens."""
    random = np.random.default_rng(seed)
    return np.concatenate([[2, *random.integers(5, 50, random.integers(1, 31)), 3] for _ in range(count)]).astype(
        np.uint16
    )


TEXTS = {"en": paragraphs_of(80, 0), "nl": paragraphs_of(40, 1)}


def of_texts(separate="nothing", seed=0, *, of=None, **changes):
    options = {"batch": 24, "length": LENGTH, "masking": MASKING, "seed": seed}
    every = {"frame": FRAME, **options, **changes}
    return language_modelling(of or models(separate), TEXTS, device=torch.device("cpu"), **every)


PAIR, ENDS = [(2,), (3,), (3,)], {"en": [10, 20, 30], "nl": [11, 22]}


def with_head(family="bert", separate="nothing", next_sentence=True):
    """Models without dropout whose tokens differ, and the head of the next-sentence objective beside them."""
    config = tiny_config(family, 60)
    config.initializer_range = 0.2
    return build(config, list(TEXTS), sharing=parse(separate), seed=0, next_sentence=next_sentence).eval()


def of_pairs(of=None, seed=0, **changes):
    return of_texts(of=of or with_head(), seed=seed, **{"frame": PAIR, "ends": ENDS, **changes})


def single_texts(rows):
    """Each text of a step by itself: what is read, and the labels there."""
    for inputs, places, labels, texts in zip(
        *(rows[key] for key in ("inputs", "places", "labels", "texts")), strict=True
    ):
        asked = torch.full_like(inputs, IGNORE).scatter(0, places, labels)
        for number in texts.unique():
            if number >= 0:
                yield inputs[texts == number][None], asked[texts == number]


# Compiling is slow, and is the same for all.
@pytest.mark.parametrize(
    ("family", "compiled"), [*((name, False) for name in ENCODERS if name != "mpnet"), ("bert", True)]
)
def test_texts_that_share_a_row_are_read_as_if_each_had_one_of_its_own(family, compiled):
    both = build(tiny_config(family, 60), list(TEXTS), sharing=parse("nothing"), seed=0).eval()
    made = of_texts(of=both, compiled=compiled)
    rows = made.draw(3)[0].rows
    alone = 0.0
    with torch.no_grad(), made.around():
        together = float(made.loss(rows, "en"))
    for ids, labels in single_texts(rows):
        with torch.no_grad():
            scores = both.of("en")(input_ids=ids).logits[0]
        alone += float(torch.nn.functional.cross_entropy(scores, labels, ignore_index=IGNORE, reduction="sum"))
    assert together == pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize("separate", ["nothing", "1-1"])
def test_a_step_has_whole_texts_of_the_streams_each_in_its_frame(separate):
    known = {}
    for name, ids in TEXTS.items():
        known[name] = {tuple(ids[begin:end].tolist()) for begin, end in texts_of(ids, FRAME, length=LENGTH).T}
    seen, drawn = 0, of_texts(separate)
    for step in range(12):
        parts = drawn.draw(step)
        assert [part.name for part in parts] == (["en"] if separate == "nothing" else ["en", "nl"])
        for part in parts:
            shown = {**part.rows, "inputs": original(part.rows)}
            assert (shown["inputs"][shown["texts"] < 0] == 0).all(), "what is left over is padding"
            for ids, _ in single_texts(shown):
                first, *content, last = ids[0].tolist()
                assert (first, last) == (2, 3)
                among = known["en"] | known["nl"] if separate == "nothing" else known[part.name]
                assert tuple(content) in among
                seen += 1
    assert 0.97 * 12 * 24 <= seen <= 12 * 24, "hardly a text is left out"


def test_every_step_of_texts_has_one_shape_and_is_a_function_of_its_number():
    one, again, other = of_texts(), of_texts(), of_texts(seed=1)
    shapes = {one.draw(step)[0].rows["inputs"].shape for step in range(20)}
    assert len(shapes) == 1
    for step in (7, 2):
        first, second = one.draw(step)[0].rows, again.draw(step)[0].rows
        assert all(torch.equal(first[key], second[key]) for key in first)
        assert not torch.equal(first["inputs"], other.draw(step)[0].rows["inputs"])


def rows_by_hand(step, frame, *, batch, rows, seed=0, mixed=False):
    """The ids of a step of texts, or of pairs, in so many rows: one loop, text by text."""
    known = {name: texts_of(ids, frame, length=LENGTH, ends=ENDS[name]).T.tolist() for name, ids in TEXTS.items()}
    sampler = ItemSampler({name: len(spans) for name, spans in known.items()}, exponent=0.7, seed=seed)
    drawn = [(list(TEXTS)[number], int(item)) for number, item in zip(*sampler.rows(step, batch), strict=True)]
    sides = []
    for name, item in drawn:
        borders = known[name][item]
        sides.append([TEXTS[name][begin:end].tolist() for begin, end in zip(borders, borders[1:], strict=False)])
    texts, room = [], LENGTH - sum(map(len, frame))
    for place, ((name, item), parts, changed) in enumerate(zip(drawn, sides, coins(seed, step, batch), strict=True)):
        before = [at for at in range(place) if drawn[at][0] == name]
        other = (before or [at for at in range(batch) if drawn[at][0] == name])[-1]  # the first has the last
        if mixed and changed and drawn[other][1] != item:
            parts = [parts[0], sides[other][1][: room - len(parts[0])]]
        text = list(frame[0])
        for part, marks in zip(parts, frame[1:], strict=True):
            text += [*part, *marks]
        texts.append(text)
    while (fitted := fit([len(text) for text in texts], LENGTH))[0].max() >= rows:
        beyond = (int(fitted[0].max()) + 1 - rows) * LENGTH
        while beyond > 0:
            beyond -= len(texts.pop())
    table = [[0] * LENGTH for _ in range(rows)]
    for text, row, place in zip(texts, *fitted, strict=True):
        table[row][place : place + len(text)] = text
    return table


@pytest.mark.parametrize("kind", ["texts", "pairs", "mixed pairs"])
def test_steps_of_texts_are_those_of_a_plain_loop(kind):
    drawn = of_texts() if kind == "texts" else of_pairs(with_head(next_sentence=kind == "mixed pairs"))
    frame = FRAME if kind == "texts" else PAIR
    for step in (0, 1, 15, 16, 40, 3):
        found = original(drawn.draw(step)[0].rows)
        expected = rows_by_hand(step, frame, batch=24, rows=len(found), mixed=kind == "mixed pairs")
        assert found.tolist() == expected


def pairs_in(rows):
    """Each pair of a step by itself: ids before masking, types, and 1 where its sides are of two texts."""
    whole = {**rows, "inputs": original(rows)}
    for row, (ids, texts) in enumerate(zip(whole["inputs"], whole["texts"], strict=True)):
        begun = {}
        for place, label in zip(rows["firsts"][row].tolist(), rows["neighbours"][row].tolist(), strict=True):
            if label != IGNORE:
                begun[int(texts[place])] = place, label
        for number in texts.unique():
            if number >= 0:
                first, label = begun.pop(int(number))
                assert first == (texts == number).nonzero()[0], "a pair is judged at its first token"
                yield ids[texts == number].tolist(), rows["types"][row][texts == number].tolist(), label
        assert not begun


@pytest.mark.parametrize("separate", ["nothing", "1-1"])
def test_half_of_the_pairs_have_the_second_side_of_another_text_of_their_language(separate):
    halves = {}
    for name, ids in TEXTS.items():
        spans = texts_of(ids, PAIR, length=LENGTH, ends=ENDS[name]).T.tolist()
        halves[name] = [(ids[a:b].tolist(), ids[b:c].tolist()) for a, b, c in spans]
    labels, drawn = [], of_pairs(with_head(separate=separate))
    for step in range(40):
        for part in drawn.draw(step):
            languages = halves if separate == "nothing" else [part.name]
            for ids, types, label in pairs_in(part.rows):
                middle = ids.index(3)
                first, second = ids[1:middle], ids[middle + 1 : -1]
                assert ids[0] == 2 and ids[-1] == 3 and types == [0] * (middle + 1) + [1] * (len(ids) - middle - 1)
                true = any((first, second) in halves[name] for name in languages)
                assert true == (label == 0)
                whose = [name for name in languages for pair in halves[name] if pair[0] == first]
                beginnings = [pair[1][: len(second)] for name in whose for pair in halves[name]]
                assert second in beginnings
                labels.append(label)
    assert np.mean(labels) == pytest.approx(0.5, abs=0.05)


def test_which_pairs_are_mixed_hangs_on_the_seed_and_the_step_alone():
    one, again, other = of_pairs(), of_pairs(), of_pairs(seed=1)
    assert len({one.draw(step)[0].rows["inputs"].shape for step in range(20)}) == 1
    for step in (33, 2):
        first, second = one.draw(step)[0].rows, again.draw(step)[0].rows
        assert all(torch.equal(first[key], second[key]) for key in first)
        assert not torch.equal(first["neighbours"], other.draw(step)[0].rows["neighbours"])
    assert not torch.equal(one.draw(2)[0].rows["neighbours"], one.draw(3)[0].rows["neighbours"])
    assert "neighbours" not in of_pairs(with_head(next_sentence=False)).draw(0)[0].rows


@pytest.mark.parametrize(
    ("family", "compiled"), [*((name, False) for name in ENCODERS if name != "mpnet"), ("bert", True)]
)
def test_pairs_that_share_a_row_give_loss_and_gradients_of_each_by_itself(family, compiled):
    both = with_head(family)
    model, head = both.of("en"), both.next_sentence
    made = of_pairs(both, compiled=compiled)
    rows = made.draw(3)[0].rows
    with made.around(), torch.set_grad_enabled(not compiled):  # compiling what runs backwards is slow
        together = made.loss(rows, "en")
    tokens, sides = [], []
    cross_entropy = torch.nn.functional.cross_entropy
    for (ids, labels), (_, types, label) in zip(single_texts(rows), pairs_in(rows), strict=True):
        told = {} if family in ("distilbert", "modernbert") else {"token_type_ids": torch.tensor([types])}
        states = model.base_model(input_ids=ids, **told)[0]
        scores = model(input_ids=ids, **told).logits[0]
        tokens.append(cross_entropy(scores, labels, ignore_index=IGNORE, reduction="sum"))
        pooled = torch.tanh(states[0, 0] @ head[0].weight.T + head[0].bias)
        sides.append(cross_entropy(pooled @ head[2].weight.T + head[2].bias, torch.tensor(label)))
    apart = sum(tokens).item(), sum(sides).item()
    assert together.item() == pytest.approx(apart[0], rel=1e-5), "the value is of the masked tokens alone"
    assert head.sums.tolist() == pytest.approx([apart[1], len(sides)], rel=1e-5)
    if not compiled:
        weights = dict(both.named_parameters())
        found = torch.autograd.grad(together / made.count(rows), weights.values())
        expected = torch.autograd.grad(sum(tokens) / made.count(rows) + sum(sides) / len(sides), weights.values())
        for name, one, other in zip(weights, found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("separate", ["nothing", "1-1"])
def test_gradients_of_pairs_do_not_hang_on_how_a_step_is_split(separate):
    found = []
    for size in (None, 2):
        both = with_head(separate=separate)
        training = Training(both, of_pairs(both), Settings(9, 0, Optimisation(clip=0), piece=size), ALONE)
        training.optimiser.step = lambda both=both: found.append({n: w.grad for n, w in both.named_parameters()})
        training.update()
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-4, atol=1e-7, msg=name)


def test_the_head_learns_which_halves_belong_together_and_tells_its_loss():
    """A word of the first half, one of eight, is in the second half too: one of another text has it by chance only."""
    random, count = np.random.default_rng(0), 2_000
    first, last, end = (np.full(count, mark) for mark in (2, 3, 59))
    shared, noise = random.integers(5, 13, count), random.integers(40, 59, (2, count))
    ids = np.stack([first, shared, noise[0], end, shared, noise[1], last])
    config = tiny_config("bert", 60)
    config.num_hidden_layers, config.hidden_dropout_prob, config.attention_probs_dropout_prob = 2, 0, 0
    both = build(config, ["en"], sharing=parse("nothing"), seed=0, next_sentence=True)
    options = {"batch": 64, "length": LENGTH, "masking": MASKING, "device": DEVICE}
    pairs = language_modelling(both, {"en": ids.T.ravel()}, seed=0, frame=PAIR, ends={"en": [59]}, **options)
    training = Training(both, pairs, Settings(400, 0, Optimisation(rate=3e-3, warm_up=30 / 400)), ALONE)
    readings = []
    for _ in range(7):
        for _ in range(50):
            training.update()
        readings += both.next_sentence.losses(ALONE)
    assert both.next_sentence.losses(ALONE) == [], "nothing was learned since"
    assert {(each["measure"], each["unit"]) for each in readings} == {("next_sentence_loss", "pair")}
    assert 0.95 * 3_200 <= readings[0]["n"] <= 3_200
    assert readings[0]["value"] == pytest.approx(np.log(2), abs=0.02) and readings[-1]["value"] < 0.5


def test_the_loss_of_pairs_is_over_all_processes_after_a_restart_too(tmp_path):
    start = with_head()

    def readings(processes):
        checkpoints, found = Checkpoints(tmp_path / str(processes.count), lambda folder: None, every=2), []
        for resumed in (False, True):
            both = copy.deepcopy(start)
            training = Training(both, of_pairs(both), Settings(9, 0, Optimisation(rate=1e-3)), processes)
            if resumed:
                training.restore(latest(checkpoints.folder))
            else:
                training.update(), training.update(), training.save(checkpoints)
            training.update()
            found += both.next_sentence.losses(processes)
        return found

    alone = readings(ALONE)
    assert alone[0] == alone[1] and alone[0]["n"] > 2 * 20
    for found in together(2, readings):
        assert found[0] == found[1]
        assert (found[0]["n"], found[0]["value"]) == (alone[0]["n"], pytest.approx(alone[0]["value"], rel=1e-4))


def test_text_without_pairs_is_refused():
    words = {"en": np.array([2, 7, 3, 2, 8, 3]), "nl": TEXTS["nl"]}
    module.row_sampler(words, FRAME, length=LENGTH, exponent=0.7, seed=0)
    with pytest.raises(InputError, match="en has no text of at least two tokens; give more text"):
        module.row_sampler(words, PAIR, length=LENGTH, exponent=0.7, seed=0)


def test_families_whose_texts_cannot_share_a_row_are_refused():
    mpnet = build(tiny_config("mpnet", 60), list(TEXTS), sharing=parse("nothing"), seed=0)
    with pytest.raises(InputError, match="cannot share a row in the family mpnet"):
        of_texts(of=mpnet)


def test_norms_leave_half_precision_where_it_is_computed_in():
    both = models()
    of_texts(of=both)
    norm = both.of("en").bert.embeddings.LayerNorm
    states = torch.randn(3, norm.weight.shape[0])
    assert norm(states).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert norm(states).dtype == torch.bfloat16


def original(rows):
    """The ids before masking."""
    used = rows["labels"] != IGNORE
    here = rows["inputs"].gather(1, rows["places"])
    return rows["inputs"].scatter(1, rows["places"], torch.where(used, rows["labels"], here))


def test_languages_of_one_model_run_together_and_others_by_themselves():
    assert [part.name for part in objective().draw(0)] == ["en"]
    parts = objective("embeddings").draw(0)
    assert [part.name for part in parts] == ["en", "nl"]
    assert sum(len(part.rows["inputs"]) for part in parts) == BATCH
    steps = [objective("embeddings", batch=1).draw(step) for step in range(12)]
    assert {tuple(part.name for part in parts) for parts in steps} == {("en",), ("nl",)}, "no part is empty"


@pytest.mark.parametrize("separate", ["nothing", "1-1"])
def test_rows_are_the_stretches_of_text_the_sampler_names(separate):
    found = objective(separate, seed=5)
    sampler = Sampler({one: len(ids) for one, ids in STREAMS.items()}, length=LENGTH, seed=5)
    for step in (7, 0, 3):
        numbers, starts = sampler.rows(step, BATCH)
        names = [list(STREAMS)[number] for number in numbers]
        expected = [STREAMS[name][start : start + LENGTH].tolist() for name, start in zip(names, starts, strict=True)]
        if separate != "nothing":
            expected = [row for one in STREAMS for row, name in zip(expected, names, strict=True) if name == one]
        rows = torch.cat([original(part.rows) for part in found.draw(step)])
        assert rows.tolist() == expected


def test_a_step_is_a_pure_function_of_the_seed_and_its_number():
    one, again, other = objective(), objective(), objective(seed=1)
    later = one.draw(9)
    for step in (9, 2, 9):
        left, right = one.draw(step)[0].rows, again.draw(step)[0].rows
        assert all(torch.equal(left[name], right[name]) for name in left)
    assert all(torch.equal(later[0].rows[name], one.draw(9)[0].rows[name]) for name in later[0].rows)
    assert not torch.equal(later[0].rows["inputs"], other.draw(9)[0].rows["inputs"])
    same_text = objective(batch=1, seed=2)
    whole = [same_text.draw(step)[0].rows for step in range(200)]
    places = {tuple(original(rows)[0].tolist()): set() for rows in whole}
    for rows in whole:
        places[tuple(original(rows)[0].tolist())].add(tuple(rows["places"][0].tolist()))
    assert max(map(len, places.values())) > 1, "text seen again is masked anew"


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_only_content_is_masked_in_its_share_and_random_words_are_of_the_pool(share):
    found = objective("embeddings", share=share, batch=32)
    masked = replaced = total = 0
    for step in range(20):
        for part in found.draw(step):
            rows, used = part.rows, part.rows["labels"] != IGNORE
            assert rows["places"].shape[1] == slots(LENGTH, share)
            assert not torch.isin(rows["labels"][used], torch.tensor(MARKS)).any()
            content = ~torch.isin(original(rows), torch.tensor(MARKS))
            assert used.sum(dim=1).tolist() == [max(1, round(share * int(one.sum()))) for one in content]
            assert found.count(rows) == used.sum()
            here = rows["inputs"].gather(1, rows["places"])[used]
            random = here[(here != MASK) & (here != rows["labels"][used])]
            assert torch.isin(random, POOLS[part.name]).all()
            masked, replaced, total = masked + int((here == MASK).sum()), replaced + len(random), total + len(here)
    assert masked / total == pytest.approx(0.8, abs=0.04)
    assert replaced / total == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("family", ENCODERS)
def test_the_loss_is_transformers_own_summed_over_the_masked_tokens(family):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForMaskedLM.from_config(tiny_config(family, 60)).eval()
    rows = objective().draw(3)[0].rows
    labels = torch.full_like(rows["inputs"], IGNORE)
    for row in range(BATCH):
        for place, label in zip(rows["places"][row], rows["labels"][row], strict=True):
            labels[row, place] = label if label != IGNORE else labels[row, place]
    with torch.no_grad():
        mean = model(input_ids=rows["inputs"], labels=labels).loss.double()
        found = token_loss(model, rows)
    assert float(found) == pytest.approx(float(mean) * int((labels != IGNORE).sum()), rel=1e-5)


CAUSAL = {language: Masking(None, MARKS, pool) for language, pool in POOLS.items()}


@pytest.mark.parametrize("rows_of", [objective, of_texts])
def test_a_decoder_learns_every_token_from_those_before_it_in_its_text(rows_of):
    """Against a loop over texts and tokens, each given what is before it and nothing else."""
    both = build(tiny_config("llama", 60), list(TEXTS), sharing=parse("nothing"), seed=0).eval()
    made = rows_of(of=both, masking=CAUSAL)
    rows = made.draw(3)[0].rows
    texts = rows.get("texts", torch.zeros_like(rows["inputs"]))
    alone, count = 0.0, 0
    for row, numbers in zip(rows["inputs"], texts, strict=True):
        for number in numbers[numbers >= 0].unique():
            ids = row[numbers == number]
            for place in range(1, len(ids)):
                with torch.no_grad():
                    scores = both.of("en")(input_ids=ids[None, :place]).logits[0, -1]
                alone += float(-scores.log_softmax(-1)[ids[place]])
                count += 1
    with torch.no_grad(), made.around():
        together = float(made.loss(rows, "en"))
    assert int(made.count(rows)) == count
    assert together == pytest.approx(alone, rel=1e-5)


def test_the_loss_of_a_decoder_is_transformers_own():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(tiny_config("llama", 60)).eval()
    rows = objective(masking=CAUSAL, of=build(tiny_config("llama", 60), ["en"], sharing=parse("nothing"), seed=0))
    rows = rows.draw(3)[0].rows
    with torch.no_grad():
        mean = model(input_ids=rows["inputs"], labels=rows["inputs"]).loss.double()
        assert float(token_loss(model, rows)) == pytest.approx(float(mean) * BATCH * (LENGTH - 1), rel=1e-5)


def test_rows_of_a_language_run_through_its_own_model():
    both = models("embeddings").eval()
    found = language_modelling(
        both, STREAMS, batch=BATCH, length=LENGTH, masking=MASKING, device=torch.device("cpu"),
        seed=0,
    )  # fmt: skip
    rows = found.draw(0)[1].rows
    assert float(found.loss(rows, "nl").detach()) == float(token_loss(both.of("nl"), rows).detach())
    assert float(found.loss(rows, "nl").detach()) != float(token_loss(both.of("en"), rows).detach())


@pytest.fixture
def compilations(monkeypatch):
    """Counts what is compiled, and compiles nothing."""
    graphs, compile_with = [], torch.compile

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda function: compile_with(function, backend=backend))
    module._compiled.cache_clear()
    limit = torch._dynamo.config.recompile_limit
    yield graphs
    assert torch._dynamo.config.recompile_limit == limit, "the compiler's settings are nobody's to change for good"
    module._compiled.cache_clear()
    torch._dynamo.reset()


@pytest.mark.parametrize("separate", ["nothing", "1-1"])
def test_models_of_one_shape_and_languages_apart_are_compiled_once(separate, compilations):
    for seed in (0, 1):
        both = models(separate).eval()
        quick, plain = (objective(seed=seed, of=both, batch=24, compiled=compiled) for compiled in (True, False))
        for step in range(3):
            for one, other in zip(quick.draw(step), plain.draw(step), strict=True):
                with quick.around():
                    found = quick.loss(one.rows, one.name)
                torch.testing.assert_close(found, plain.loss(other.rows, other.name))
    sizes = {len(part.rows["inputs"]) for step in range(3) for part in objective(separate, batch=24).draw(step)}
    assert len(sizes) == 1 if separate == "nothing" else len(sizes) > 2, "a language's rows differ from step to step"
    assert len(compilations) == 1


def test_word_starts_of_wordpieces_and_unigram_pieces():
    from isogloss.recipes.packed_text import word_starts
    from isogloss.text.readers.dictionaries import embedded
    from isogloss.text.tokenizers import train_tokenizers

    lines = list(embedded()["en"])
    for kind in ("wordpiece", "unigram"):
        tokenizer = train_tokenizers({"en": lambda: lines}, kind=kind, size=300)["en"]
        starts = word_starts(tokenizer)
        ids = tokenizer("the unbelievable cats, we", add_special_tokens=False)["input_ids"]
        found = [tokenizer.convert_ids_to_tokens(one) for one in ids]
        begun = [piece for piece, one in zip(found, ids, strict=True) if starts[one]]
        words = [piece.removeprefix("▁") for piece in begun]
        assert words[0].startswith("t") and "," in words and not any(one.startswith("##") for one in words)
        assert starts[:5].all(), "special tokens begin something new"
        assert len(begun) < len(found), "the test is about words of several pieces"


class Pieces(list):
    """A tokenizer that knows these pieces."""

    def convert_ids_to_tokens(self, ids):
        return [self[one] for one in ids]


def test_ideographs_begin_words_in_pieces_without_spaces_and_marks_do_not():
    from isogloss.recipes.packed_text import word_starts

    starts = {"[CLS]": True, "▁cat": True, "s": False, "ки": False, "睡觉": True, "\u093e": False, ",": True, "2": True}
    assert dict(zip(starts, word_starts(Pieces(starts)).tolist(), strict=True)) == starts


def test_whole_words_need_pieces_that_show_where_words_begin():
    from isogloss.recipes.packed_text import word_starts

    with pytest.raises(InputError, match="--whole-words needs a tokenizer whose pieces show where words begin"):
        word_starts(Pieces(["<s>", "Ġcat", "s"]))
