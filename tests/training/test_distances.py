"""Distances between models against explicit loops over words, and the error of the paper's code they do not repeat."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial import procrustes
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModel, PreTrainedTokenizerFast

import isogloss as ig
from isogloss.errors import InputError
from isogloss.measures.registry import MEASURES
from isogloss.measures.statistics import jackknife_interval
from isogloss.stack.families import FAMILIES
from isogloss.stack.stack import Stack
from isogloss.text.words import spans
from isogloss.training.distances import _distance, _first_uses, distance_probe, sample_vectors
from tiny_models import DEPTH, ENCODERS, TEXT, tiny_config, tiny_tokenizer

CORPUS = ig.Corpus("en", TEXT, name="eight")
NAMES = {"l2": "l2_drift", "cosine": "cosine_drift", "cka": "cka", "procrustes": "procrustes_distance"}


@pytest.fixture
def bert(tiny):
    return ig.load(tiny("bert"))


@pytest.fixture
def native(tiny):
    """Another model with another tokenizer, whose pieces are shorter."""
    return other_model("roberta", tiny_tokenizer(TEXT[:4], size=60))


def other_model(family, tokenizer, *, seed=11, **changes):
    config = tiny_config(family, len(tokenizer))
    for name, value in changes.items():
        setattr(config, name, value)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModel.from_config(config).eval()
        for weight in model.parameters():
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=0.2)
    return Stack(model, FAMILIES[family], tokenizer, "native", 0, config.num_hidden_layers)


def probe_of(stack, reference, corpus=CORPUS, *, other="native", measures=tuple(NAMES), **sampling):
    if isinstance(reference, Stack):
        reference = sample_vectors(reference, corpus, **{"seed": 0, "words": None} | sampling)
    return distance_probe(stack, reference, every=10, other=other, measures=measures)


def take(stack, reference, corpus=CORPUS, **options):
    return list(probe_of(stack, reference, corpus, **options).take())


def values(readings, name):
    return [one["value"] for one in readings if one["measure"] == NAMES[name]]


def words_by_hand(stack, hidden=None):
    """Layer -> (sentence, word) -> vector: one sentence at a time, one word at a time, from transformers itself."""
    found = {}
    for row, text in enumerate(TEXT):
        encoded = stack.tokenizer(text, return_offsets_mapping=True)
        ids = torch.tensor([encoded["input_ids"]])
        with torch.no_grad():
            states = hidden(ids) if hidden else stack.model(input_ids=ids, output_hidden_states=True).hidden_states
        for number, (start, end) in enumerate(spans(text, "en")):
            tokens = [i for i, (a, b) in enumerate(encoded["offset_mapping"]) if max(a, start) < min(b, end)]
            for layer, one in enumerate(states):
                found.setdefault(layer, {})[row, number] = sum(one[0, i].double() for i in tokens) / len(tokens)
    return found


def first_uses(keys, stack):
    """The keys (sentence, word) of the first use of each word of TEXT, in the order in which sentences are drawn."""
    seen, kept, rows = set(), [], sample_vectors(stack, CORPUS, seed=0, words=None).rows
    for row, number in sorted(keys, key=lambda key: (rows.index(key[0]), key[1])):
        start, end = spans(TEXT[row], "en")[number]
        word = TEXT[row][start:end].lower()
        kept += [(row, number)] if word not in seen else []
        seen.add(word)
    return kept


def test_distances_agree_with_a_loop_over_words(bert, native):
    assert any(bert.tokenizer.tokenize(text) != native.tokenizer.tokenize(text) for text in TEXT)
    readings = take(bert, native)
    here, there = words_by_hand(bert), words_by_hand(native)
    keys, firsts = sorted(here[0]), first_uses(here[0], bert)
    assert len(firsts) < len(keys) == sum(len(spans(text, "en")) for text in TEXT)
    counted = {NAMES["l2"]: len(keys), NAMES["cosine"]: len(keys), NAMES["cka"]: len(firsts)}
    assert {one["measure"]: one["n"] for one in readings} == {**counted, NAMES["procrustes"]: len(firsts)}
    for layer in range(DEPTH + 1):
        pairs = [(here[layer][key], there[layer][key]) for key in keys]
        x, y = (torch.stack([side[layer][key] for key in firsts]) for side in (here, there))
        expected = {
            "l2": sum(float((a - b).square().sum()) ** 0.5 for a, b in pairs) / len(pairs),
            "cosine": sum(1 - float(a @ b) / float(a.norm() * b.norm()) for a, b in pairs) / len(pairs),
            "cka": ig.cka(x, y),
            "procrustes": procrustes(x.numpy(), y.numpy())[2],
        }
        for name, value in expected.items():
            assert values(readings, name)[layer] == pytest.approx(value, rel=1e-4, abs=1e-5)
    assert [one["layer"] for one in readings] == [one["other_layer"] for one in readings]
    assert {(one["unit"], one["other_model"], one["data"]) for one in readings} == {("word", "native", "eight")}
    assert {one["measure"] for one in readings} == set(NAMES.values()) <= set(MEASURES)
    assert len(readings) == 4 * (DEPTH + 1)


def test_intervals_leave_out_one_sentence_at_a_time(bert, native):
    readings = take(bert, native, measures=["cosine", "l2"], layers=[2])
    here, there = words_by_hand(bert)[2], words_by_hand(native)[2]
    without = [
        np.mean([float((here[key] - there[key]).norm()) for key in here if key[0] != row]) for row in range(len(TEXT))
    ]
    expected = jackknife_interval(readings[1]["value"], torch.tensor(without))
    assert (readings[1]["low"], readings[1]["high"]) == pytest.approx((expected.low, expected.high), rel=1e-4)
    assert [one["measure"] for one in readings] == ["cosine_drift", "l2_drift"]
    alone = take(bert, native, ig.Corpus("en", TEXT[:1]), measures=["l2"])
    assert all(math.isnan(one["low"]) and math.isnan(one["high"]) for one in alone)


@pytest.mark.parametrize("part", ["states", "attention"])
@pytest.mark.parametrize("by_position", [False, True])
def test_a_model_is_at_no_distance_from_itself(bert, part, by_position):
    for reference in (bert, sample_vectors(bert, CORPUS, seed=0, words=None, part=part, by_position=by_position)):
        readings = take(bert, reference, part=part, by_position=by_position)
        assert set(values(readings, "l2")) == {0.0}
        assert values(readings, "cosine") == pytest.approx([0] * len(values(readings, "cosine")), abs=1e-12)
        assert values(readings, "cka") == pytest.approx([1] * len(values(readings, "cka")), abs=1e-5)
        assert values(readings, "procrustes") == pytest.approx([0] * len(values(readings, "cka")), abs=1e-12)


def test_a_rotation_is_a_distance_but_no_other_arrangement(bert):
    start = sample_vectors(bert, CORPUS, seed=0, words=None)
    turn = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(0))).Q
    readings = take(bert, replace(start, values=start.values @ turn))
    assert min(values(readings, "l2")) > 1
    assert min(values(readings, "cosine")) > 0.5
    assert values(readings, "cka") == pytest.approx([1] * (DEPTH + 1), abs=1e-4)
    assert values(readings, "procrustes") == pytest.approx([0] * (DEPTH + 1), abs=1e-6)


def test_a_repeated_word_is_no_agreement():
    """Vectors drawn anew for each word and model agree in nothing, however often a word occurs."""
    rng = np.random.default_rng(0)
    words = rng.choice(300, size=1200, p=(1 / np.arange(1, 301)) / (1 / np.arange(1, 301)).sum())
    corpus = ig.Corpus(
        "en", [" ".join(f"w{word}" for word in words[start : start + 10]) for start in range(0, 1200, 10)]
    )
    x, y = (torch.from_numpy(rng.normal(size=(300, 64))[words]).float() for _ in "xy")
    items = torch.tensor([(row, place) for row in range(120) for place in range(10)])
    first = _first_uses(corpus, items)
    assert len(first) == len(set(words.tolist())) and ig.cka(x, y) > 0.5
    alike = _distance("cka", x, y, sentences=items[:, 0], first=first, seed=0)
    assert alike["low"] < 0 < alike["high"] and abs(alike["value"]) < 0.05 and alike["n"] == len(first)


def test_floors_are_those_of_shuffled_pairs(bert, native):
    readings = take(bert, native)
    assert {one["measure"] for one in readings if "floor" in one} == {"cka", "procrustes_distance"}
    for one in readings:
        if one["measure"] == "cka":
            assert abs(one["floor"]) < 0.2
        elif one["measure"] == "procrustes_distance":  # about as many words as directions: nothing left is far from 1
            assert 0.1 < one["floor"] < 0.9
            assert one["value"] < one["floor"] + 0.1
    assert take(bert, native) == readings


WORDS = ["de", "kat", "slaapt", "op", "het", "gras", "vogel", "ziet", "in", "bank"]  # no two begin alike
DUTCH = ig.Corpus("nl", ["de kat slaapt op het gras", "de vogel ziet het gras", "in de bank slaapt het"], name="three")


def model_of_words(pieces, template):
    """A BERT whose blocks look at nothing around a token (no positions, no attention), with its tokenizer.

    pieces: each word's pieces in WordPiece's spelling, all with the embedding of that word.
    """
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(piece for word in WORDS for piece in pieces[word])]
    inner = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(known)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    inner.post_processor = processors.TemplateProcessing(single=template, special_tokens=marks)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, model_max_length=64, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip
    stack = other_model("bert", tokenizer, vocab_size=25)  # as many rows in each, so that all draws agree
    embeddings = stack.model.embeddings
    with torch.no_grad():
        embeddings.position_embeddings.weight.zero_()
        table = embeddings.word_embeddings.weight
        own = table.clone()
        for place, word in enumerate(WORDS):
            for piece in pieces[word]:
                table[known.index(piece)] = own[5 + place]
        for block in stack.blocks:
            block.attention.output.dense.weight.zero_()
    return stack


def test_position_by_position_distance_between_models_with_different_tokenizers():
    """Named after an error of the papers' code: equal models look different by position, and are equal by words.

    Both models give a word the same vector. One tokenizer knows every word; the other cuts each in two, and puts no
    [CLS] before them.
    """
    whole = model_of_words({word: [word] for word in WORDS}, "[CLS] $A [SEP]")
    halves = model_of_words({word: [word[0], f"##{word[1:]}"] for word in WORDS}, "$A [SEP]")
    lengths = [[len(stack.tokenizer(text)["input_ids"]) for text in DUTCH] for stack in (whole, halves)]
    assert lengths == [[8, 7, 7], [13, 11, 11]]
    by_words = take(whole, halves, DUTCH)
    assert {(one["unit"], one["n"]) for one in by_words} == {("word", 6 + 5 + 5), ("word", len(WORDS))}
    for name, value in {"l2": 0, "cosine": 0, "cka": 1, "procrustes": 0}.items():
        assert values(by_words, name) == pytest.approx([value] * (DEPTH + 1), abs=1e-5)
    by_position = take(whole, halves, DUTCH, by_position=True, measures=["l2"])
    assert {(one["unit"], one["n"]) for one in by_position} == {("position", 3 * 8)}  # padded, cut to the shorter
    assert min(values(by_position, "l2")) > 1


@pytest.mark.parametrize("attend_padding", [False, True])
def test_positions_by_hand(bert, native, attend_padding):
    """Position i of one padded batch against position i of the other, marks and padding included."""
    readings = take(bert, native, by_position=True, attend_padding=attend_padding, measures=["l2"])
    assert {one["unit"] for one in readings} == {"position"}
    padded = []
    for stack in (bert, native):
        encoded = stack.tokenizer(TEXT, padding=True, return_tensors="pt", return_token_type_ids=False)
        if attend_padding:
            del encoded["attention_mask"]
        with torch.no_grad():
            padded.append(stack.model(**encoded, output_hidden_states=True).hidden_states)
    shorter = min(side[0].shape[1] for side in padded)
    assert padded[0][0].shape[1] != padded[1][0].shape[1]
    expected = [float((x[:, :shorter] - y[:, :shorter]).norm(dim=-1).mean()) for x, y in zip(*padded, strict=True)]
    assert values(readings, "l2") == pytest.approx(expected, rel=1e-5)


def test_what_a_token_is_called_does_not_matter(bert):
    """The same model with its vocabulary in another order."""
    order = torch.randperm(len(bert.tokenizer), generator=torch.Generator().manual_seed(0))
    known = bert.tokenizer.get_vocab()
    tokenizer = tiny_tokenizer()
    inner = Tokenizer(
        models.WordPiece({piece: int(order[number]) for piece, number in known.items()}, unk_token="[UNK]")
    )
    inner.normalizer, inner.pre_tokenizer = (
        getattr(tokenizer.backend_tokenizer, one) for one in ("normalizer", "pre_tokenizer")
    )
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", int(order[2])), ("[SEP]", int(order[3]))]
    )
    renamed = PreTrainedTokenizerFast(
        tokenizer_object=inner, model_max_length=64, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]",
    )  # fmt: skip
    model = copy.deepcopy(bert.model)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[order] = bert.model.embeddings.word_embeddings.weight
    readings = take(bert, replace(bert, model=model, tokenizer=renamed), measures=["l2"])
    assert values(readings, "l2") == pytest.approx([0] * (DEPTH + 1), abs=1e-5)


def test_words_that_either_model_lost_to_cutting_are_left_out(bert, native):
    native.tokenizer.model_max_length = 12
    readings = take(bert, native, measures=["l2"])
    kept = []
    for row, text in enumerate(TEXT):
        encoded = native.tokenizer(text, truncation=True, max_length=12, return_offsets_mapping=True)
        reached = max(end for _, end in encoded["offset_mapping"])
        kept += [(row, number) for number, (start, _) in enumerate(spans(text, "en")) if start < reached]
    assert {one["n"] for one in readings} == {len(kept)}
    assert len(kept) < sum(len(spans(text, "en")) for text in TEXT)


def test_frozen_layers_keep_their_distance_to_the_bit(tiny, native):
    """Dropout is off while measuring, and what is drawn is drawn once: only what moved moves."""
    bert = ig.load(tiny("bert"))
    bert.model.config.hidden_dropout_prob = 0.5
    for module in bert.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    bert.model.train()
    bert.blocks[0].eval()
    modes = [module.training for module in bert.model.modules()]
    probe = probe_of(bert, native, words=30)
    own = probe_of(bert, sample_vectors(bert, CORPUS, seed=0), other="start")
    before = list(probe.take())
    assert list(probe.take()) == before
    ig.freeze(bert, 2)
    with torch.no_grad():
        for weight in bert.model.parameters():
            if weight.requires_grad:
                weight += 0.1
    after = list(probe.take())
    for one, two in zip(before, after, strict=True):
        assert (one == two) == (one["layer"] <= 2)
    assert [value == 0 for value in values(own.take(), "l2")] == [True, True, True, False]
    assert [module.training for module in bert.model.modules()] == modes


def test_the_reference_is_read_once(bert, native):
    probe = probe_of(bert, native, measures=["l2"])
    before = list(probe.take())
    native.model.requires_grad_(False)
    for weight in native.model.parameters():
        weight.zero_()
    assert list(probe.take()) == before


def test_attention_is_that_of_a_hook_by_hand(bert):
    other = other_model("bert", bert.tokenizer)

    def hooked(stack):
        def run(ids):
            found = []
            handles = [
                block.attention.output.dense.register_forward_hook(lambda _, __, out: found.append(out))
                for block in stack.model.encoder.layer
            ]
            stack.model(input_ids=ids)
            for handle in handles:
                handle.remove()
            return found

        return words_by_hand(stack, run)

    here, there = hooked(bert), hooked(other)
    readings = take(bert, other, part="attention", measures=["l2"])
    assert [one["layer"] for one in readings] == [1, 2, 3]
    assert {one["method"] for one in readings} == {"attention"}
    for one in readings:
        x, y = here[one["layer"] - 1], there[one["layer"] - 1]
        assert one["value"] == pytest.approx(np.mean([float((x[key] - y[key]).norm()) for key in x]), rel=1e-5)
    assert values(readings, "l2") != values(take(bert, other, measures=["l2"]), "l2")[1:]


@pytest.mark.parametrize("family", ENCODERS)
def test_every_family_of_encoders_is_compared(tiny, family):
    stack, other = ig.load(tiny(family)), ig.load(tiny("bert"))
    for options in ({}, {"part": "attention"}, {"by_position": True}):
        readings = take(stack, other, measures=["l2", "cka"], layers=[1, 3], **options)
        assert len(readings) == 4
        assert all(math.isfinite(one["value"]) for one in readings)
        if family != "bert":
            assert min(values(readings, "l2")) > 0.1


def test_the_sample_is_of_whole_sentences_drawn_by_the_seed(bert, native):
    corpus = ig.Corpus("en", [f"{text} {number}" for number in range(6) for text in TEXT])
    l2 = ["l2"]
    counts = {
        seed: {one["n"] for one in take(bert, native, corpus, words=60, seed=seed, measures=l2)} for seed in range(3)
    }
    for (count,) in counts.values():
        assert 60 <= count < 60 + max(len(spans(text, "en")) for text in corpus)
    first = sample_vectors(bert, corpus, seed=0, words=60)
    again = sample_vectors(bert, corpus, seed=0, words=60)
    assert first.rows == again.rows != sample_vectors(bert, corpus, seed=1, words=60).rows
    assert torch.equal(first.values, again.values)
    assert first.values.dtype == torch.float32
    assert first.values.shape == (DEPTH + 1, len(first.items), 32)
    assert set(first.items[:, 0].tolist()) == set(first.rows)


def test_models_of_other_widths_are_compared_by_cka(bert):
    wide = other_model("bert", bert.tokenizer, hidden_size=64)
    probe = probe_of(bert, wide)
    readings = list(probe.take())
    assert {one["measure"] for one in readings} == {"cka"}
    here, there = words_by_hand(bert)[1], words_by_hand(wide)[1]
    x, y = (torch.stack([side[key] for key in first_uses(here, bert)]) for side in (here, there))
    assert values(readings, "cka")[1] == pytest.approx(ig.cka(x, y), abs=1e-5)
    assert len(probe.notes) == 1
    assert "native is 64 wide" in probe.notes[0]
    assert "l2, cosine, procrustes left out" in probe.notes[0]
    assert probe_of(bert, bert).notes == ()
    with pytest.raises(InputError, match="only cka compares models of different widths"):
        take(bert, wide, measures=["l2"])


def test_what_cannot_be_compared_is_refused_in_a_sentence(bert, tiny):
    shallow = other_model("bert", bert.tokenizer, num_hidden_layers=2)
    with pytest.raises(InputError, match="native has 2 layers, .* has 3: layers are compared one by one"):
        take(bert, shallow)
    with pytest.raises(InputError, match="no distance is called 'svcca'; choose l2, cosine, cka, procrustes"):
        take(bert, bert, measures=["svcca"])
    with pytest.raises(InputError, match="have 1 different words in common, and a distance needs at least 4"):
        take(bert, bert, ig.Corpus("en", ["yes"]))
    with pytest.raises(InputError, match="have 0 different words in common"):
        take(bert, bert, ig.Corpus("en", ["yes"], words=[[]]))
    with pytest.raises(InputError, match="the corpus is empty"):
        take(bert, bert, ig.Corpus("en", []))
    with pytest.raises(InputError, match="at least 4 words, not 3"):
        take(bert, bert, words=3)


@pytest.mark.gpu
@pytest.mark.parametrize("measure", NAMES)
def test_a_gpu_gives_the_distances_of_the_cpu(measure):
    x = torch.randn(700, 24, generator=torch.Generator().manual_seed(0))
    y = x + torch.randn(700, 24, generator=torch.Generator().manual_seed(1))
    sentences = torch.arange(700) // 7
    here, there = (
        _distance(measure, x.to(device), y.to(device), sentences=sentences, seed=0) for device in ("cpu", "cuda")
    )
    for name in here.keys() - {"measure"}:
        assert there[name] == pytest.approx(here[name], rel=1e-4, abs=1e-6)
