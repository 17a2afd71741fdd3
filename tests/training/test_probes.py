"""Probes against explicit loops over streams and layers, and the errors of the papers' code they must not repeat."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForMaskedLM

import isogloss as ig
from isogloss.errors import InputError
from isogloss.measures import perplexity_interval
from isogloss.text.masking import IGNORE
from isogloss.training.masked_lm import MASKED_AT_ONCE, held_out_masks, perplexity_probe
from isogloss.training.probes import retrieval_probe
from tiny_models import TEXT, tiny_config

VOCABULARY, LENGTH, MASK, MARKS = 60, 16, 4, [0, 2, 3]
POOL = torch.arange(5, VOCABULARY)
FACTS = {"en": (300, 1500), "nl": (40, 200)}


def tiny_masked_lm(family="bert", seed=3, dropout=0.5):
    config = tiny_config(family, VOCABULARY)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForMaskedLM.from_config(config)
        for weight in model.parameters():
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=0.2)
    return model


def text(tokens, seed=0):
    """Ids with borders in them, as packed paragraphs have."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(5, VOCABULARY, tokens).astype(np.uint16)
    ids[::11], ids[10::11] = 2, 3
    return ids


# 37 streams and a tail of 9; 5 streams and a tail too short to predict in.
STREAMS = {"en": text(37 * LENGTH + 9), "nl": text(5 * LENGTH + 7, seed=1)}


def probe(model, streams=STREAMS, **changes):
    options = {
        "length": LENGTH, "mask_id": MASK, "marks": MARKS, "pools": dict.fromkeys(streams, POOL), "every": 10,
        "seed": 0, "device": "cpu",
    }  # fmt: skip
    return perplexity_probe(lambda _: model, streams, FACTS, **options | changes)


def masks(language, seed=0, ids=None):
    ids = STREAMS[language] if ids is None else ids
    how = {"mask_id": MASK, "marks": MARKS, "pool": POOL, "seed": seed}
    return list(held_out_masks(language, ids, LENGTH, **how))


def values(readings, **where):
    """Values of the readings at these coordinates."""
    return [one["value"] for one in readings if all(one[name] == value for name, value in where.items())]


def by_hand(model, language):
    """Nats and predicted tokens of each stream: one stream at a time, every place through the model's own logits."""
    found = []
    model.eval()
    with torch.no_grad():
        for batch in masks(language):
            for row in range(len(batch.inputs)):
                logits = model(input_ids=batch.inputs[row : row + 1]).logits[0].double()
                nats = [
                    cross_entropy(logits[place], label).item()
                    for place, label in zip(batch.places[row], batch.labels[row], strict=True)
                    if label != IGNORE
                ]
                found.append((sum(nats), len(nats)))
    return found


def test_each_token_of_the_text_is_in_exactly_one_stream():
    rebuilt = []
    for batch in masks("en"):
        used = batch.labels != IGNORE
        original = torch.where(used, batch.labels, batch.inputs.gather(1, batch.places))
        rebuilt.append(batch.inputs.scatter(1, batch.places, original).flatten())
    assert torch.cat(rebuilt).tolist() == STREAMS["en"].tolist()
    assert [tuple(batch.inputs.shape) for batch in masks("nl")] == [(5, LENGTH)]
    assert [tuple(batch.inputs.shape) for batch in masks("nl", ids=text(10))] == [(1, 10)]


def test_masks_are_of_content_only_and_of_the_whole_of_it():
    for batch in masks("en", ids=text(600 * LENGTH)):
        used = batch.labels != IGNORE
        assert not torch.isin(batch.labels[used], torch.tensor(MARKS)).any()
        assert (used.sum(dim=1) >= 1).all()
    assert [len(batch.inputs) for batch in masks("en", ids=text(600 * LENGTH))] == [MASKED_AT_ONCE] * 2 + [88]


def test_validation_stops_after_two_batches():
    """Named after an error of the papers' code: every stream counts, in batches of any size."""
    model = tiny_masked_lm()
    hand = {language: by_hand(model, language) for language in STREAMS}
    readings = list(probe(model, rows=4).take())
    assert len(hand["en"]) == 38
    for language, found in hand.items():
        content = int((~np.isin(STREAMS[language], MARKS)).sum())
        mean = sum(nats for nats, _ in found) / sum(count for _, count in found)
        for unit, rate in (
            ("token", 1.0), ("word", content / FACTS[language][0]), ("character", content / FACTS[language][1])
        ):  # fmt: skip
            assert values(readings, target=language, unit=unit) == [pytest.approx(math.exp(mean * rate), rel=1e-5)]
        assert {one["n"] for one in readings if one["target"] == language} == {sum(count for _, count in found)}
    for rows in (1, 7, 1000):
        again = [one["value"] for one in probe(model, rows=rows).take()]
        assert again == pytest.approx([one["value"] for one in readings], rel=1e-5)


def test_all_pools_the_sums_of_the_languages():
    model = tiny_masked_lm()
    readings = list(probe(model).take())
    both = by_hand(model, "en") + by_hand(model, "nl")
    total, count = (sum(column) for column in zip(*both, strict=True))
    assert values(readings, target="all", unit="token") == [pytest.approx(math.exp(total / count), rel=1e-5)]
    content = sum(int((~np.isin(ids, MARKS)).sum()) for ids in STREAMS.values())
    word = math.exp(total / count * content / (FACTS["en"][0] + FACTS["nl"][0]))
    assert values(readings, target="all", unit="word") == [pytest.approx(word, rel=1e-5)]
    alone = list(probe(model, {"en": STREAMS["en"]}).take())
    assert {one["target"] for one in alone} == {"en"}
    assert alone == [one for one in readings if one["target"] == "en"]


def test_intervals_are_a_jackknife_over_neighbouring_streams():
    model = tiny_masked_lm()
    totals, counts = torch.tensor(by_hand(model, "en"), dtype=torch.float64).T
    edges = [(38 // 20 + 1) * min(i, 18) + max(0, i - 18) for i in range(21)]  # 18 blocks of two, 2 of one
    blocks = [slice(start, stop) for start, stop in zip(edges, edges[1:], strict=False)]
    assert edges[-1] == 38
    low, high = perplexity_interval(
        torch.stack([totals[one].sum() for one in blocks]), torch.stack([counts[one].sum() for one in blocks])
    )
    readings = list(probe(model).take())
    (found,) = [one for one in readings if one["target"] == "en" and one["unit"] == "token"]
    assert (found["low"], found["high"]) == pytest.approx((low, high), rel=1e-4)
    assert all(one["low"] < one["value"] < one["high"] for one in readings)


def test_validation_masks_redrawn_each_time():
    """Named after an error of the papers' code: an unchanged model has the same perplexity to the bit."""
    model = tiny_masked_lm()
    taken = probe(model)
    first = list(taken.take())
    assert list(taken.take()) == first
    assert list(probe(model).take()) == first
    assert values(probe(model, seed=1).take(), unit="token") != values(first, unit="token")


def test_train_or_eval_mode_left_to_chance():
    """Named after an error of the papers' code: dropout is off while measuring, and each module's mode comes back."""
    model = tiny_masked_lm(dropout=0.5)
    expected = list(probe(model.eval()).take())
    model.train()
    model.bert.encoder.eval()
    before = {name: module.training for name, module in model.named_modules()}
    assert list(probe(model).take()) == expected
    assert {name: module.training for name, module in model.named_modules()} == before


def test_training_goes_on_after_a_probe_as_if_it_had_not_been_taken():
    gradients = []
    for probed in (False, True):
        model = tiny_masked_lm(dropout=0.0).train()
        weights = [weight.clone() for weight in model.parameters()]
        state = torch.get_rng_state()
        if probed:
            list(probe(model).take())
        assert torch.equal(state, torch.get_rng_state())
        assert all(torch.equal(one, two) for one, two in zip(weights, model.parameters(), strict=True))
        ids = torch.as_tensor(STREAMS["en"][:LENGTH].astype(np.int64))[None]
        model(input_ids=ids, labels=ids).loss.backward()
        gradients.append([weight.grad for weight in model.parameters() if weight.grad is not None])
    assert all(torch.equal(one, two) for one, two in zip(*gradients, strict=True))


def test_perplexity_follows_the_model():
    model = tiny_masked_lm(dropout=0.0)
    taken = probe(model)
    before = values(taken.take(), target="en", unit="token")
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for batch in masks("en")[:1] * 40:
        logits = model(input_ids=batch.inputs).logits
        picked = logits.gather(1, batch.places[..., None].expand(-1, -1, VOCABULARY))
        cross_entropy(picked.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORE).backward()
        optimiser.step()
        optimiser.zero_grad()
    assert values(taken.take(), target="en", unit="token")[0] < before[0] / 2


def test_each_language_is_read_by_its_own_model():
    models = {"en": tiny_masked_lm(seed=3), "nl": tiny_masked_lm("modernbert", seed=4)}
    pools = dict.fromkeys(STREAMS, POOL)
    options = {"length": LENGTH, "mask_id": MASK, "marks": MARKS, "pools": pools, "every": 1, "seed": 0}
    found = list(perplexity_probe(models.__getitem__, STREAMS, FACTS, device="cpu", **options).take())
    for language, model in models.items():
        expected = values(probe(model).take(), target=language)
        assert values(found, target=language) == expected


def test_half_precision_comes_close():
    model = tiny_masked_lm()
    full, half = (values(probe(model, dtype=dtype).take(), unit="token") for dtype in (None, torch.bfloat16))
    assert half != full
    assert half == pytest.approx(full, rel=0.05)


def test_too_little_text_is_refused():
    model = tiny_masked_lm()
    with pytest.raises(InputError, match="held-out text of en has 6 tokens"):
        probe(model, {"en": text(7)})
    with pytest.raises(InputError, match="held-out text of nl has 0 tokens"):
        probe(model, {"nl": np.full(100, 2, dtype=np.uint16)})
    with pytest.raises(InputError, match="at least one language"):
        probe(model, {})


def bitext(rows=24, name="three"):
    draw = np.random.default_rng(0)
    words = sorted({word for line in TEXT for word in line.split()})

    texts = {language: [" ".join(draw.choice(words, 6)) for _ in range(rows)] for language in ("nl", "en", "de")}
    texts["en"][5] = texts["en"][3]  # a repeat: the right answer has a copy
    return ig.Bitext(tuple(ig.Corpus(language, lines) for language, lines in texts.items()), name=name)


def test_retrieval_at_every_layer_by_hand(tiny):
    stacks = {"en": ig.load(tiny("bert")), "nl": ig.load(tiny("bert")), "de": ig.load(tiny("roberta"))}
    parallel = bitext()
    readings = list(retrieval_probe(stacks.__getitem__, [parallel], every=5).take())
    x = {language: ig.vectors(stacks[language], parallel[language]) for language in parallel.languages}
    assert {one["layer"] for one in readings} == {0, 1, 2, 3}
    for layer in range(4):
        means = []
        for other in ("nl", "de"):
            keys = {"keys_x": parallel["en"].sentences, "keys_y": parallel[other].sentences}
            expected = ig.retrieval(x["en"][layer], x[other][layer], method="centred", **keys)["p@1"]
            (there,) = values(readings, measure="p@1", layer=layer, source="en", target=other)
            (back,) = values(readings, measure="p@1", layer=layer, source=other, target="en")
            assert (there + back) / 2 == pytest.approx(expected, abs=1e-12)
            means.append(expected)
        (mean,) = [one for one in readings if one["measure"] == "p@1_mean" and one["layer"] == layer]
        assert mean["value"] == pytest.approx(sum(means) / 2, abs=1e-12)
        assert mean["n"] == 24
    pairs = {(one["source"], one["target"]) for one in readings if one["measure"] == "p@1"}
    assert pairs == {("en", "nl"), ("nl", "en"), ("en", "de"), ("de", "en")}
    assert {(one["method"], one["unit"], one["data"]) for one in readings} == {("centred", "sentence", "three")}
    assert all(one["low"] <= one["value"] <= one["high"] for one in readings)
    chance = (22 * 1 + 2 * 2) / 24 / 24  # the two sentences that are alike have two right answers
    assert [one["floor"] for one in readings] == pytest.approx([chance] * len(readings))


def test_readings_are_named_as_the_map_names_its_rows(tiny):
    parallel = bitext()
    stack = ig.load(tiny("bert"))
    table = ig.map(stack, parallel, sample="all", pairs="all")
    rows = table[(table.method == "centred") & (table.unit == "sentence")]
    for one in retrieval_probe(lambda _: stack, [parallel], every=1).take():
        if one["measure"] == "p@1":
            same = rows[(rows.measure == "p@1") & (rows.layer == one["layer"]) & (rows.source == one["source"])]
            same = same[same.target == one["target"]]
            assert same.value.tolist() == [pytest.approx(one["value"])]
            for column in ("low", "high", "floor", "n", "data"):
                assert same[column].tolist() == [pytest.approx(one[column]) if column != "data" else one[column]]
    pair = ig.Bitext((parallel["en"], parallel["nl"]), name="pair")
    table = ig.map(stack, pair, sample="all")
    rows = table[(table.method == "centred") & (table.measure == "p@1_mean")].set_index("layer")
    for one in retrieval_probe(lambda _: stack, [pair], every=1).take():
        if one["measure"] == "p@1_mean":
            for column in ("value", "low", "high", "floor", "n"):
                assert rows.loc[one["layer"], column] == pytest.approx(one[column])


def test_retrieval_restores_the_mode(tiny):
    stack = ig.load(tiny("bert"))
    stack.model.train()
    taken = retrieval_probe(lambda _: stack, [bitext()], every=1)
    first = list(taken.take())
    assert list(taken.take()) == first
    assert all(module.training for module in stack.model.modules())


def test_texts_that_cannot_be_probed_are_refused():
    with pytest.raises(InputError, match="same name"):
        retrieval_probe(lambda _: None, [bitext(), bitext()], every=1)


def test_held_out_texts_are_predicted_one_by_one():
    """Readings of texts are those of transformers' own model, which is given each of them alone."""
    model = tiny_masked_lm(dropout=0.5).train()
    random, frame = np.random.default_rng(3), [(2,), (3,)]
    texts = [[2, *random.integers(5, 50, size), 3] for size in (3, 30, 1, 14, 9)]
    ids = np.concatenate(texts).astype(np.uint16)
    how = {"mask_id": 4, "marks": [0, 1, 2, 3, 4], "seed": 0, "length": 12}
    pool = torch.arange(5, 50)
    found = perplexity_probe(
        lambda _: model, {"en": ids}, {"en": (20, 90)}, pools={"en": pool}, every=1, device="cpu", frame=frame, **how
    )
    reading = next(each for each in found.take() if each["unit"] == "token")
    total, count = 0.0, 0
    model.eval()
    for masked in held_out_masks("en", ids, pool=pool, frame=frame, **how):
        for inputs, places, labels in zip(masked.inputs, masked.places, masked.labels, strict=True):
            chosen, length = labels != IGNORE, int((inputs != 0).sum())
            with torch.no_grad():
                scores = model(input_ids=inputs[None, :length]).logits[0]
            total += float(cross_entropy(scores[places[chosen]], labels[chosen], reduction="sum"))
            count += int(chosen.sum())
    assert (reading["n"], reading["value"]) == (count, pytest.approx(np.exp(total / count), rel=1e-5))
