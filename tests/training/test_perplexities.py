"""Training and evaluating on sentences, against a loop over single sentences, and the errors not to repeat."""

import doctest
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from isogloss.errors import InputError
from isogloss.measures.perplexity import perplexity_interval
from isogloss.progress import listening
from isogloss.seeds import seed_of
from isogloss.text import batches
from isogloss.text.batches import Sentences, marks as marks_of, tokenise
from isogloss.text.corpora import Corpus
from isogloss.text.masking import IGNORE, Masking, fixed_masks
from isogloss.text.streams import Stream, cut_stream
from isogloss.text.words import spans
from isogloss.training import perplexities
from isogloss.training.language_modelling import sentence_modelling
from isogloss.training.loop import Optimisation, Settings, Training, steps_in_epoch, train
from isogloss.training.perplexities import perplexity_probe
from tiny_models import ENCODERS, TEXT, tiny_config, tiny_tokenizer
from tiny_training import ALONE

CPU = torch.device("cpu")
TOKENIZER = tiny_tokenizer()
MARKS, MASK = marks_of(TOKENIZER), TOKENIZER.mask_token_id
POOL = torch.arange(5, len(TOKENIZER))
MASKING = Masking(MASK, MARKS, POOL)
CAUSAL = Masking(None, MARKS, POOL)
MASKED, DECODERS = (*ENCODERS, "deberta-v2"), ("llama", "gpt2", "gemma2", "bloom")


def tiny_masked_lm(family="bert", dropout=0.0, seed=3):
    config = tiny_config(family, len(TOKENIZER))
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = (AutoModelForMaskedLM if family in MASKED else AutoModelForCausalLM).from_config(config)
        for weight in model.parameters():
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=0.2)
    return model


def corpus(language, size, seed=0, name=""):
    """Sentences of one to twelve random words."""
    draw = np.random.default_rng(seed)
    words = sorted({word for line in TEXT for word in line.split()})
    return Corpus(language, [" ".join(draw.choice(words, draw.integers(1, 13))) for _ in range(size)], name=name)


NL = tokenise(TOKENIZER, corpus("nl", 23, name="target"), max_length=64)
EN = tokenise(TOKENIZER, corpus("en", 31, seed=1, name="xnli"), max_length=64)
RU = tokenise(TOKENIZER, corpus("ru", 9, seed=2, name="xnli"), max_length=64)
ALL = [NL, EN, RU]


def rows_of(text):
    return np.split(text.ids, np.cumsum(text.lengths)[:-1])


def objective(model=None, text=NL, **changes):
    options = {"batch": 4, "seed": 0, "masking": MASKING, "device": CPU}
    return sentence_modelling(model or tiny_masked_lm(), text, **options | changes)


def probe(model, corpora=ALL, **changes):
    options = {
        "target": "nl", "every": 5, "seed": 0, "masking": MASKING, "device": "cpu"
    }  # fmt: skip
    return perplexity_probe(model, corpora, **options | changes)


def by_hand(model, text, seed=0, share=0.15):
    """Nats and predicted tokens of each sentence: one at a time, every place through the model's own logits."""
    key = seed_of(seed, "sentence masks", text.language, text.name)
    content = ~np.isin(text.ids, MARKS)
    how = {"content": content, "mask_id": MASK, "pool": POOL.numpy(), "seed": key, "share": share}
    inputs, chosen = fixed_masks(text.ids, text.lengths, **how)
    found, start = [], 0
    model.eval()
    with torch.no_grad():
        for length in text.lengths.tolist():
            here = slice(start, start + length)
            logits = model(input_ids=torch.as_tensor(inputs[here][None].astype(np.int64))).logits[0].double()
            nats = [
                cross_entropy(logits[place], torch.tensor(int(text.ids[start + place]))).item()
                for place in np.flatnonzero(chosen[here])
            ]
            found.append((sum(nats), len(nats)))
            start += length
    return found


def readings(found, **where):
    return [one for one in found if all(one[name] == value for name, value in where.items())]


def values(found, **where):
    return [one["value"] for one in readings(found, **where)]


def test_sentences_are_what_the_tokenizer_gives(monkeypatch):
    monkeypatch.setattr(batches, "TOKENISED_AT_ONCE", 3)
    told = []
    text = Corpus("en", TEXT)
    with listening(lambda *news: told.append(news)):
        found = tokenise(TOKENIZER, text, max_length=64)
    assert [row.tolist() for row in rows_of(found)] == TOKENIZER(TEXT)["input_ids"]
    assert (found.name, found.language, len(found), found.shortened) == ("en", "en", len(TEXT), 0)
    assert found.characters == sum(map(len, TEXT))
    assert found.words == sum(len(spans(line, "en")) for line in TEXT)
    assert [done for _, done, _ in told] == [3, 6, 8]


def test_of_a_sentence_that_is_cut_only_what_is_kept_is_counted():
    line = "the cat sleeps on the chair"  # six words, each one piece
    assert len(TOKENIZER(line)["input_ids"]) == 8
    found = tokenise(TOKENIZER, Corpus("en", [line, "yes"]), max_length=5)
    assert (found.lengths.tolist(), found.shortened) == ([5, 3], 1)
    assert found.words == 3 + 1
    assert found.characters == round(len(line) / 2 + 3)


def test_every_epoch_sees_each_sentence_once():
    drawn = objective()
    assert steps_in_epoch(NL, 4) == 6
    epochs = []
    for epoch in range(3):
        seen = []
        for step in range(6 * epoch, 6 * epoch + 6):
            (part,) = drawn.draw(step)
            rows, used = part.rows, part.rows["labels"] != IGNORE
            here = rows["inputs"].gather(1, rows["places"])
            original = rows["inputs"].scatter(1, rows["places"], torch.where(used, rows["labels"], here))
            lengths = rows["attention"].sum(dim=1)
            assert int(lengths.max()) == original.shape[1]
            for row, length in zip(original, lengths.tolist(), strict=True):
                assert not row[length:].any(), "what follows is padding"
                seen.append(tuple(row[:length].tolist()))
            assert not torch.isin(rows["labels"][used], torch.tensor(MARKS)).any()
            content = torch.isin(original, torch.tensor(MARKS), invert=True) & rows["attention"].bool()
            wanted = [max(1, round(0.15 * c)) for c in content.sum(dim=1).tolist()]
            assert used.sum(dim=1).tolist() == wanted
            assert int(drawn.count(rows)) == sum(wanted)
        assert sorted(seen) == sorted(tuple(row.tolist()) for row in rows_of(NL))
        assert len(part.rows["inputs"]) == 23 % 4, "the last batch is smaller"
        epochs.append(seen)
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_draw_is_a_function_of_the_step():
    def same(one, two):
        return all(torch.equal(one[0].rows[key], two[0].rows[key]) for key in one[0].rows)

    first, second = objective(), objective()
    steps = [11, 0, 7, 0, 11]
    assert all(same(first.draw(step), second.draw(step)) for step in steps)
    assert same(first.draw(11), second.draw(11))
    one, later = objective(batch=23).draw(0)[0].rows, objective(batch=23, seed=1).draw(0)[0].rows
    assert not torch.equal(one["inputs"], later["inputs"])


@pytest.mark.parametrize("family", [*MASKED, *DECODERS])
def test_the_loss_is_that_of_each_sentence_by_itself(family):
    model = tiny_masked_lm(family).eval()
    found = objective(model, batch=8, masking=CAUSAL if family in DECODERS else MASKING)
    rows = found.draw(1)[0].rows
    assert not rows["attention"].all()
    total = 0.0
    with torch.no_grad():
        for i in range(8):
            length = int(rows["attention"][i].sum())
            logits = model(input_ids=rows["inputs"][i : i + 1, :length]).logits[0].double()
            for place, label in zip(rows["places"][i], rows["labels"][i], strict=True):
                if label != IGNORE:
                    total += cross_entropy(logits[place], label).item()
        assert float(found.loss(rows, "")) == pytest.approx(total, rel=1e-4)


def test_training_on_sentences_lowers_perplexity():
    model = tiny_masked_lm()
    text = tokenise(TOKENIZER, Corpus("nl", TEXT * 3), max_length=64)
    settings = Settings(steps=60, seed=0, optimisation=Optimisation(rate=5e-3), report=20)
    training = Training(model, objective(model, text, batch=8), settings, ALONE)
    found = [one for step in train(training, probes=[probe(model, [text], every=20)]) for one in step]
    losses = values(found, measure="loss")
    assert len(losses) == 3 and losses[2] < losses[1] < losses[0]
    curve = values(found, measure="perplexity", target="nl", unit="token")
    assert len(curve) == 4
    assert curve[-1] < curve[0] / 4


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("family", ENCODERS)
def test_perplexity_by_hand(family, pack, monkeypatch):
    monkeypatch.setattr(perplexities, "packing_pays", lambda *_: pack)
    model = tiny_masked_lm(family)
    before = model.config._attn_implementation
    found = list(probe(model, tokens=60).take())
    assert model.config._attn_implementation == before
    for text in ALL:
        hand = by_hand(model, text)
        assert len(hand) == len(text) and all(count for _, count in hand), "every sentence counts"
        total, count = (sum(column) for column in zip(*hand, strict=True))
        content = int((~np.isin(text.ids, MARKS)).sum())
        rates = {"token": 1.0, "word": content / text.words, "character": content / text.characters}
        for unit, rate in rates.items():
            (one,) = readings(found, target=text.language, unit=unit)
            assert one["value"] == pytest.approx(math.exp(total / count * rate), rel=1e-4)
            assert (one["measure"], one["n"], one["data"]) == ("perplexity", count, text.name)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("family", DECODERS)
def test_perplexity_of_a_decoder_by_hand(family, pack, monkeypatch):
    """Sentence by sentence, each content token given all tokens before it; the first has none and does not count."""
    monkeypatch.setattr(perplexities, "packing_pays", lambda *_: pack)
    model = tiny_masked_lm(family).eval()
    found = list(probe(model, masking=CAUSAL, tokens=60).take())
    for text in ALL:
        nats = []
        for ids in rows_of(text):
            with torch.no_grad():
                logits = model(input_ids=torch.as_tensor(ids[None].astype(np.int64))).logits[0].double()
            nats += [
                float(-logits[place - 1].log_softmax(-1)[ids[place]])
                for place in range(1, len(ids))
                if ids[place] not in MARKS
            ]
        (one,) = readings(found, target=text.language, unit="token")
        assert one["value"] == pytest.approx(math.exp(np.mean(nats)), rel=1e-4)
        assert (one["n"], one["method"]) == (len(nats), "causal")


def test_sentences_of_one_token_say_nothing_of_a_decoder():
    alone = Sentences("nl", "short", np.array([7, 8], dtype=np.int32), np.array([1, 1]), 2, 2, 0)
    with pytest.raises(InputError, match="has no token that could be predicted; give other text"):
        probe(tiny_masked_lm("llama"), [alone], masking=CAUSAL)


def test_others_are_pooled_from_sums():
    model = tiny_masked_lm()
    found = list(probe(model).take())
    total, count = (sum(column) for column in zip(*(by_hand(model, EN) + by_hand(model, RU)), strict=True))
    (one,) = readings(found, target="others", unit="token")
    assert one["value"] == pytest.approx(math.exp(total / count), rel=1e-5)
    assert (one["n"], one["data"]) == (count, "xnli")
    (one,) = readings(found, target="others", unit="character")
    content = sum(int((~np.isin(text.ids, MARKS)).sum()) for text in (EN, RU))
    rate = content / (EN.characters + RU.characters)
    assert one["value"] == pytest.approx(math.exp(total / count * rate), rel=1e-5)
    assert {one["target"] for one in probe(model, [NL]).take()} == {"nl"}
    assert values(probe(model, [EN]).take(), target="others") == values(found, target="en")


def test_intervals_are_a_jackknife_over_neighbouring_sentences():
    model = tiny_masked_lm()
    hand = torch.tensor(by_hand(model, EN), dtype=torch.float64)
    blocks = torch.stack([part.sum(dim=0) for part in hand.tensor_split(20)])
    (one,) = readings(probe(model).take(), target="en", unit="token")
    assert (one["low"], one["high"]) == pytest.approx(perplexity_interval(*blocks.T), rel=1e-4)
    assert one["low"] < one["value"] < one["high"]


def test_batches_change_nothing_but_rounding(monkeypatch):
    model = tiny_masked_lm()
    expected = values(probe(model).take())
    for tokens in (1, 37, 10**6):
        assert values(probe(model, tokens=tokens).take()) == pytest.approx(expected, rel=1e-5)
    monkeypatch.setattr(perplexities, "SCORES_AT_ONCE", 3 * len(TOKENIZER))
    monkeypatch.setattr(perplexities, "RESIDENT_TOKENS", 0)
    assert values(probe(model).take()) == pytest.approx(expected, rel=1e-5)


def test_no_attention_mask():
    """Named after an error of the papers' code: padding is never attended to, unless that is asked for."""
    model = tiny_masked_lm().eval()
    right, wrong = objective(model), objective(model, attend_padding=True)
    one, two = right.draw(0)[0].rows, wrong.draw(0)[0].rows
    assert torch.equal(one["inputs"], two["inputs"]) and "attention" not in two
    with torch.no_grad():
        assert float(right.loss(one, "")) != pytest.approx(float(wrong.loss(two, "")), rel=1e-5)

    expected = values(probe(model).take())
    padded = values(probe(model, attend_padding=True).take())
    assert padded != pytest.approx(expected, rel=1e-5)
    assert values(probe(model, attend_padding=True, rows=1).take()) == pytest.approx(expected, rel=1e-5)
    assert values(probe(model, attend_padding=True, tokens=7).take()) == padded, "rows decide, not tokens"


def test_validation_stops_after_two_batches():
    """Named after an error of the papers' code: all sentences count, or the first few, and `n` says which."""
    model = tiny_masked_lm()
    hand = by_hand(model, NL)[:8]
    found = list(probe(model, limit=8).take())
    total, count = (sum(column) for column in zip(*hand, strict=True))
    assert values(found, target="nl", unit="token") == [pytest.approx(math.exp(total / count), rel=1e-5)]
    assert {one["n"] for one in readings(found, target="nl")} == {count}
    rate = int((~np.isin(NL.ids, MARKS)).sum()) / NL.words  # of the whole text
    assert values(found, target="nl", unit="word") == [pytest.approx(math.exp(total / count * rate), rel=1e-5)]
    assert list(probe(model, limit=10**6).take()) == list(probe(model).take())


def test_validation_masks_redrawn_each_time():
    """Named after an error of the papers' code: an unchanged model has the same perplexity to the bit."""
    model = tiny_masked_lm()
    taken = probe(model)
    first = list(taken.take())
    assert list(taken.take()) == first == list(probe(model).take())
    assert values(probe(model, seed=1).take()) != values(first)

    again = probe(model, redraw=itertools.count().__next__)
    three = [list(again.take()) for _ in range(3)]
    assert len({values(one, target="nl", unit="token")[0] for one in [*three, first]}) == 4
    assert list(probe(model, redraw=lambda: 0).take()) == three[0]
    steps = iter([40, 50, 40])
    told = probe(model, redraw=lambda: next(steps))
    one, two, three = (list(told.take()) for _ in range(3))
    assert one == three != two


def test_train_or_eval_mode_left_to_chance():
    """Named after an error of the papers' code: dropout is off while measuring, and each module's mode comes back."""
    model = tiny_masked_lm(dropout=0.5)
    expected = list(probe(model.eval()).take())
    model.train()
    model.bert.encoder.eval()
    before = {name: module.training for name, module in model.named_modules()}
    state = torch.get_rng_state()
    assert list(probe(model).take()) == expected
    assert {name: module.training for name, module in model.named_modules()} == before
    assert torch.equal(state, torch.get_rng_state())


def test_sentences_without_a_maskable_token_are_passed_over():
    model = tiny_masked_lm()
    ids = np.concatenate([[2, 3], NL.ids, [2, 3]])
    wider = Sentences("nl", "target", ids, np.array([2, *NL.lengths, 2]), NL.words, NL.characters, 0)
    hand = by_hand(model, wider)
    assert hand[0] == hand[-1] == (0, 0)
    total, count = (sum(column) for column in zip(*hand, strict=True))
    for how in ({}, {"attend_padding": True, "rows": 1}):
        (one,) = readings(probe(model, [wider], **how).take(), unit="token")
        assert (one["value"], one["n"]) == (pytest.approx(math.exp(total / count), rel=1e-5), count)
    learned = objective(model, wider, batch=25)
    assert int(learned.count(learned.draw(0)[0].rows)) == count, "as many are learned from as are evaluated"


def test_mistakes_are_one_sentence():
    model = tiny_masked_lm()
    empty = Sentences("nl", "marks.txt", np.array([2, 3] * 9), np.full(9, 2), 9, 9, 0)
    with pytest.raises(InputError, match="the target corpus has 23 sentences, fewer than one batch of 24"):
        objective(model, batch=24)
    for use in (lambda: objective(model, empty), lambda: probe(model, [NL, empty])):
        with pytest.raises(InputError, match=r"marks.txt \(nl\) has no token that could be masked"):
            use()
    with pytest.raises(InputError, match=r"xnli \(en\)"):
        probe(model, [EN, NL, EN])
    with pytest.raises(InputError, match="at least one corpus"):
        probe(model, [])
    with pytest.raises(InputError, match="the corpus en has no sentences"):
        tokenise(TOKENIZER, Corpus("en", []), max_length=8)


def stream(language, tokens, seed):
    """Packed paragraphs of three to thirty tokens between their special tokens."""
    random, paragraphs = np.random.default_rng(seed), []
    while sum(map(len, paragraphs)) < tokens:
        paragraphs.append([2, *random.integers(5, len(TOKENIZER), random.integers(3, 31)), 3])
    ids = np.concatenate(paragraphs)[:tokens].astype(np.uint16)
    ids[-1] = 3
    return Stream(language, ids, tokens, len(paragraphs), 5 * tokens, tokens)


# 37 rows and a tail of 9; 5 rows and a tail too short to predict in.
STREAMS = {"en": stream("en", 37 * 16 + 9, 0), "nl": stream("nl", 5 * 16 + 7, 1)}


def test_a_stream_is_cut_into_rows_that_have_each_token_once():
    cut = {language: cut_stream(each, length=16) for language, each in STREAMS.items()}
    assert np.concatenate(rows_of(cut["en"])).tolist() == STREAMS["en"].ids.tolist()
    assert cut["en"].lengths.tolist() == [16] * 37 + [9]
    assert cut["nl"].lengths.tolist() == [16] * 5
    assert (cut["nl"].words, cut["nl"].characters, cut["nl"].name) == (80, 400, "")


@pytest.mark.parametrize("frame", [[(2,), (3,)], [(2,), ()], [(), (3,)]])
def test_texts_of_a_stream_stand_in_their_frame(frame):
    stream = STREAMS["en"]
    marks = [number for number in (2, 3) if (number,) not in frame]
    stream = replace(stream, ids=stream.ids[~np.isin(stream.ids, marks)])
    rows = rows_of(cut_stream(stream, length=16, frame=frame))
    assert max(map(len, rows)) <= 16
    assert {(*row[: len(frame[0])], *row[len(row) - len(frame[1]) :]) for row in rows} == {(*frame[0], *frame[1])}
    contents = np.concatenate([[number for number in row if number > 4] for row in rows])
    assert contents.tolist() == [number for number in STREAMS["en"].ids.tolist() if number > 4]


@pytest.mark.parametrize("frame", [None, [(2,), (3,)]])
def test_held_out_text_of_languages_with_models_of_their_own(frame):
    """Each is read by its own model, under words of its own, and `all` pools the sums."""
    models = {"en": tiny_masked_lm(seed=3), "nl": tiny_masked_lm(seed=4)}
    texts = [cut_stream(each, length=16, frame=frame) for each in STREAMS.values()]
    found = list(probe(models, texts, target=None, masking=dict.fromkeys(models, MASKING)).take())
    assert not any("data" in reading for reading in found)
    hand = {text.language: np.array(by_hand(models[text.language], text)).sum(axis=0) for text in texts}
    hand["all"] = hand["en"] + hand["nl"]
    for language, (nats, count) in hand.items():
        (reading,) = readings(found, target=language, unit="token")
        assert (reading["n"], reading["value"]) == (count, pytest.approx(math.exp(nats / count), rel=1e-5))
    assert {reading["target"] for reading in probe(models["en"], texts[:1], target=None).take()} == {"en"}


def test_sentences_are_masked_part_by_part_as_they_are_together(monkeypatch):
    model = tiny_masked_lm()
    whole = values(probe(model).take())
    monkeypatch.setattr(batches, "PREPARED_AT_ONCE", 7)
    monkeypatch.setattr(perplexities, "RESIDENT_TOKENS", 50)  # so that masks are drawn again at each reading
    parts = probe(model)
    for _ in range(2):
        assert values(parts.take()) == pytest.approx(whole, rel=1e-5)


def test_held_out_text_without_a_word_is_refused():
    empty = Stream("nl", np.full(100, 2, dtype=np.uint16), 100, 1, 0, 0)
    with pytest.raises(InputError, match="the corpus of nl has no token that could be masked"):
        probe(tiny_masked_lm(), [cut_stream(empty, length=16)])


def test_examples():
    assert doctest.testmod(batches).failed == 0


@pytest.mark.gpu
@pytest.mark.parametrize("family", ENCODERS)
def test_half_precision_on_a_gpu_stays_close_to_the_cpu(family):
    model = tiny_masked_lm(family)
    expected = values(probe(model).take(), unit="token")
    model.to("cuda")
    assert values(probe(model, device="cuda").take(), unit="token") == pytest.approx(expected, rel=0.02)
    half = values(probe(model, device="cuda", dtype=torch.bfloat16).take(), unit="token")
    assert half == pytest.approx(expected, rel=0.1)
