import weakref
from dataclasses import replace
from functools import partial

import pytest
import torch

import isogloss as ig
from isogloss.errors import InputError
from isogloss.progress import listening, shifted
from isogloss.stack import load
from isogloss.text.batches import chunks, encode, group
from isogloss.text.corpora import Corpus
from isogloss.vectors import stream, vectors
from isogloss.vectors.extract import find_sinks, first_of_group, mean_by_group
from tiny_models import DEPTH, ENCODERS, TEXT

CORPUS = Corpus("en", TEXT)


def plain_masked_mean(stack, texts):
    """The reference: one padded batch through transformers, mean over what is neither special nor padding."""
    tokenizer = stack.tokenizer
    encoded = tokenizer(texts, padding=True, return_tensors="pt", return_special_tokens_mask=True)
    keep = (encoded["attention_mask"] * (1 - encoded["special_tokens_mask"])).unsqueeze(-1)
    with torch.no_grad():
        out = stack.model(
            input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"], output_hidden_states=True
        )
    return torch.stack([(states * keep).sum(1) / keep.sum(1) for states in out.hidden_states])


@pytest.mark.parametrize("family", ENCODERS)
def test_vectors_equal_a_plain_masked_mean(tiny, family):
    stack = load(tiny(family))
    ours, reference = vectors(stack, CORPUS), plain_masked_mean(stack, TEXT)
    top = DEPTH if stack.family.norm else DEPTH + 1  # the top cut of pre-norm models is before the final norm
    assert ours.shape == reference.shape == (DEPTH + 1, len(TEXT), 32)
    torch.testing.assert_close(ours[:top], reference[:top], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ENCODERS)
def test_batch_size_and_order_change_nothing(tiny, family):
    stack = load(tiny(family))
    whole = vectors(stack, CORPUS)
    for options in ({"tokens": 1}, {"chunk": 3, "tokens": 20}, {"chunk": 1}):
        pieces = torch.cat([one.values["sentence"] for one in stream(stack, CORPUS, **options)], dim=1)
        torch.testing.assert_close(pieces, whole, atol=1e-5, rtol=0)
    order = [5, 0, 7, 3, 1, 6, 2, 4]
    turned = torch.cat([one.values["sentence"] for one in stream(stack, CORPUS, rows=order, chunk=3)], dim=1)
    torch.testing.assert_close(turned, whole[:, order], atol=1e-5, rtol=0)


def test_special_tokens_written_into_the_text_never_enter_the_mean(tiny):
    """A pair of marks typed by the user, added again by the tokenizer, must not stay inside the mean."""
    stack = load(tiny("bert"))
    marked = Corpus("en", ["[CLS] the cat sleeps [SEP]"])
    batch = encode(stack.tokenizer, marked, [0], max_length=64)
    marks = [stack.tokenizer.cls_token_id, stack.tokenizer.sep_token_id]
    ids = batch.ids[batch.content].tolist()
    assert batch.ids.tolist().count(marks[0]) == 2
    assert not set(ids) & set(marks)
    assert ids == stack.tokenizer("the cat sleeps", add_special_tokens=False)["input_ids"]


def test_unknown_words_are_content(tiny):
    stack = load(tiny("bert"))
    batch = encode(stack.tokenizer, Corpus("en", ["the ☃"]), [0], max_length=64)
    assert stack.tokenizer.unk_token_id in batch.ids[batch.content].tolist()


def test_measuring_sets_eval_mode_and_restores_each_module(tiny):
    stack = load(tiny("bert"))
    stack.model.train()
    stack.blocks[1].eval()
    before = [module.training for module in stack.model.modules()]
    first, second = vectors(stack, CORPUS), vectors(stack, CORPUS)
    assert torch.equal(first, second)  # dropout is off, whatever mode the model was in
    assert [module.training for module in stack.model.modules()] == before
    assert True in before and False in before


def test_each_sentence_is_visited_exactly_once():
    """Batch i is rows i*size..(i+1)*size, not data[i:i+size], which reads a quarter of the data."""
    lengths = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
    for tokens in (1, 5, 10, 1000):
        batches = list(group(lengths, tokens=tokens))
        assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
        assert all(len(b) * max(lengths[i] for i in b) <= tokens or len(b) == 1 for b in batches)
    assert [row for piece in chunks(range(800), 16) for row in piece] == list(range(800))


def test_words_of_whitespace_and_chinese_text_by_hand(tiny):
    stack = load(tiny("bert"))
    corpus = Corpus("zh", ["猫 sleeps"], words=[[(0, 1), (2, 8)]])
    batch = encode(stack.tokenizer, corpus, [0], max_length=64, words=True)
    with torch.no_grad():
        states = stack.read(batch)
    for pool in ("mean", "weighted", "last", "first"):
        words = vectors(stack, corpus, unit="word", pool=pool)
        assert words.shape[1] == 2
        for cut, tokens in states.items():
            second = tokens[batch.words == 1]
            places = torch.arange(1.0, len(second) + 1)
            weighted = (places[:, None] * second).sum(0) / places.sum()
            expected = {"mean": second.mean(0), "weighted": weighted, "last": second[-1], "first": second[0]}[pool]
            torch.testing.assert_close(words[cut, 0], tokens[1], atol=1e-6, rtol=0)
            torch.testing.assert_close(words[cut, 1], expected, atol=1e-6, rtol=0)


def test_token_vectors_are_the_content_tokens_in_order(tiny):
    stack = load(tiny("bert"))
    found = list(stream(stack, CORPUS, units=("token", "sentence"), chunk=4))
    tokens = torch.cat([one.values["token"] for one in found], dim=1)
    items = torch.cat([one.items["token"] for one in found])
    means = torch.cat([one.values["sentence"] for one in found], dim=1)
    for row in range(len(TEXT)):
        mine = items[:, 0] == row
        assert items[mine, 1].tolist() == list(range(int(mine.sum())))
        torch.testing.assert_close(tokens[:, mine].mean(1), means[:, row], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ["xlm-roberta", "mpnet"])  # packed and padded
def test_the_first_token_of_each_sentence(tiny, family):
    stack = load(tiny(family))
    alone = [encode(stack.tokenizer, CORPUS, [row], max_length=64) for row in range(len(CORPUS))]
    with torch.no_grad():
        reference = torch.stack([stack.read(one)[2][0] for one in alone])
    torch.testing.assert_close(vectors(stack, CORPUS, layers=[2], unit="first")[0], reference, atol=1e-5, rtol=0)
    found = next(stream(stack, CORPUS, units=("first", "sentence")))
    assert found.items["first"].tolist() == [[row, 0] for row in range(len(CORPUS))]
    assert not torch.allclose(found.values["first"], found.values["sentence"], atol=1e-2)


@pytest.mark.parametrize("unit", ["sentence", "word"])
def test_vectors_are_float32_on_the_cpu_whatever_the_mode_and_the_default(tiny, unit):
    stack, corpus = load(tiny("bert"), device="cpu"), Corpus("en", TEXT)
    expected = vectors(stack, corpus, unit=unit)
    with torch.inference_mode():
        assert torch.equal(vectors(stack, corpus, unit=unit), expected)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(vectors(stack, corpus, unit=unit), expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_name_or_a_single_layer_is_refused_with_what_to_give(tiny):
    with pytest.raises(InputError, match=r"loaded model; give isogloss.load\('mini'\)"):
        ig.vectors("mini", CORPUS)
    with pytest.raises(InputError, match=r"give layers=\[2\]"):
        ig.vectors(load(tiny("bert")), CORPUS, layers=2)


def test_only_the_layers_asked_for(tiny):
    stack = load(tiny("bert"))
    torch.testing.assert_close(vectors(stack, CORPUS, layers=[2, 0]), vectors(stack, CORPUS)[[2, 0]], atol=1e-6, rtol=0)
    with pytest.raises(InputError, match="cuts 0 to 3"):
        vectors(stack, CORPUS, layers=[4])


def test_long_sentences_are_cut_and_counted(tiny):
    stack = load(tiny("bert"))
    assert stack.max_length == 64
    corpus = Corpus("en", ["the cat", "cat " * 100, "cat " * 62])
    found = next(stream(stack, corpus))
    assert found.shortened == [1]
    expected = vectors(stack, Corpus("en", ["cat " * 62]))
    torch.testing.assert_close(found.values["sentence"][:, 1:2], expected, atol=1e-5, rtol=0)


def test_empty_sentence_is_named_by_line(tiny):
    stack = load(tiny("bert"))
    with pytest.raises(InputError, match=r"lines\.txt: nothing is left of sentence 2 \('  '\)"):
        vectors(stack, Corpus("en", ["cat", "  "], name="lines.txt"))
    with pytest.raises(InputError, match="lines.txt is empty"):
        vectors(stack, Corpus("en", [], name="lines.txt"))


@pytest.mark.parametrize(("given", "unit"), [(["the cat"], "word"), ("the cat", "sentence")])
def test_sentences_without_a_language_have_no_words(tiny, given, unit):
    stack = load(tiny("bert"))
    with pytest.raises(InputError, match=r"sentences are given as a Corpus, as in Corpus\('en', sentences\), not "):
        vectors(stack, given, unit=unit)
    assert torch.equal(vectors(stack, TEXT), vectors(stack, Corpus("en", TEXT)))
    with pytest.raises(InputError, match="the list of sentences holds 3 where a sentence was expected"):
        vectors(stack, ["a cat", 3])
    with pytest.raises(InputError, match="the list of sentences is empty"):
        vectors(stack, [])
    with pytest.raises(InputError, match="the corpus of en is one text; give a list of sentences"):
        Corpus("en", "the cat")


def test_progress_reaches_the_total(tiny):
    seen = []
    with listening(lambda *news: seen.append(news)):
        list(stream(load(tiny("bert")), CORPUS, chunk=3))
    assert seen[-1] == ("reading en", len(TEXT), len(TEXT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


@pytest.mark.parametrize("around", [iter, partial(shifted, 0, len(TEXT))])
def test_a_chunk_let_go_is_not_held_while_the_next_is_computed(tiny, around):
    """Held, it would double the memory of a long stream."""
    held, known = [], []

    def told(*_):
        held.append(any(one() is not None for one in known))

    with listening(told):
        for chunk in around(stream(load(tiny("bert")), CORPUS, chunk=3)):
            known.append(weakref.ref(chunk.values["sentence"]))
            del chunk
    assert len(known) == 3 and len(held) >= 3
    assert not any(held)


def test_pooling_by_hand():
    states = torch.tensor([[1.0], [3.0], [10.0], [4.0]])
    groups = torch.tensor([1, 1, -1, 0])
    assert mean_by_group(states, groups, 2).flatten().tolist() == [4.0, 2.0]
    assert first_of_group(states, groups, 2).flatten().tolist() == [4.0, 1.0]
    assert torch.isnan(mean_by_group(states, groups, 3)[2]).all()
    assert mean_by_group(states.where(groups[:, None] >= 0, torch.inf), groups, 2).flatten().tolist() == [4.0, 2.0]
    assert torch.isnan(first_of_group(states, groups, 3)[2]).all()


@pytest.mark.parametrize("unit", ["sentence", "word", "token"])
def test_sentences_that_repeat_run_once_and_every_copy_has_its_vectors(tiny, unit, monkeypatch):
    stack = ig.load(tiny("bert"))
    texts = ["the cat sleeps", "de kat", "the cat sleeps", "we drink water and eat bread", "de kat", "the cat sleeps"]
    run = []
    read = type(stack).read
    monkeypatch.setattr(
        type(stack), "read", lambda self, batch, *a, **k: (run.append(len(batch)), read(self, batch, *a, **k))[1]
    )
    (found,) = ig.stream(stack, ig.Corpus("en", texts), units=(unit,))
    assert sum(run) == 3
    alone = [next(iter(ig.stream(stack, ig.Corpus("en", [text]), units=(unit,)))) for text in texts]
    expected = torch.cat([one.values[unit] for one in alone], dim=1)
    torch.testing.assert_close(found.values[unit], expected, atol=1e-5, rtol=1e-5)
    items = [[row, int(number)] for row, one in enumerate(alone) for number in one.items[unit][:, 1]]
    assert found.items[unit].tolist() == items


def test_a_repeated_long_sentence_is_cut_in_every_row(tiny):
    stack = ig.load(tiny("bert"))
    long = "the cat sleeps " * 60
    (found,) = ig.stream(stack, ig.Corpus("en", [long, "de kat", long]))
    assert found.shortened == [0, 2]


def test_equal_sentences_with_other_words_are_no_copies(tiny):
    stack = ig.load(tiny("bert"))
    words = [[(0, 3), (4, 7)], [(0, 7)]]
    (found,) = ig.stream(stack, ig.Corpus("en", ["the cat", "the cat"], words), units=("word",))
    assert found.items["word"].tolist() == [[0, 0], [0, 1], [1, 0]]


# How a sentence is made of its tokens


@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("pooling", ["mean", "weighted", "last", "first"])
def test_poolings_are_those_of_a_loop(tiny, family, pooling):
    stack = load(tiny(family))
    found = vectors(stack, CORPUS, pooling=pooling)
    for row, text in enumerate(TEXT):
        (one,) = stream(stack, Corpus("en", [text]), units=("token", "first"))
        tokens = one.values["token"]  # (layers, tokens, width)
        places = torch.arange(1.0, tokens.shape[1] + 1)[:, None]
        expected = {
            "mean": tokens.mean(dim=1),
            "weighted": (places * tokens).sum(dim=1) / places.sum(),
            "last": tokens[:, -1],
            "first": one.values["first"][:, 0],
        }[pooling]
        torch.testing.assert_close(found[:, row], expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(InputError, match="pooling 'max' is not known; choose mean, weighted, last, first"):
        vectors(stack, CORPUS, pooling="max")


@pytest.fixture
def with_sinks(tiny):
    """A decoder the state of whose first content token is over 1,000 times as long as the others, at every layer."""
    stack = load(tiny("gpt2"))
    with torch.no_grad():
        stack.model.wpe.weight[1] = 20_000 * stack.model.wpe.weight[2].norm() / 32**0.5  # position 0 is that of [CLS]
    return stack


def test_sinks_are_found_and_left_out(with_sinks, tiny):
    rows = list(range(len(TEXT)))
    found = find_sinks(with_sinks, [CORPUS], layers=list(with_sinks.cuts), rows=rows)
    assert list(found) == list(with_sinks.cuts)
    tokens = sum(vectors(with_sinks, Corpus("en", [text]), unit="token").shape[1] for text in TEXT)
    for sinks in found.values():
        assert sinks.share == pytest.approx(len(TEXT) / tokens) and sinks.first == 1 and sinks.times > 1000
    assert not find_sinks(load(tiny("gpt2")), [CORPUS], layers=[0, DEPTH], rows=rows)
    (without,) = stream(with_sinks, CORPUS, sinks=found)
    for row, text in enumerate(TEXT):
        states = vectors(with_sinks, Corpus("en", [text]), unit="token")
        expected = (states[:, 1:] if states.shape[1] > 1 else states).mean(dim=1)  # where there is no other, it stays
        torch.testing.assert_close(without.values["sentence"][:, row], expected, atol=1e-4, rtol=1e-4)


def test_sinks_of_short_sentences_are_found(with_sinks):
    short = Corpus("en", ["the cat sleeps", "we drink water"])  # a third of the tokens come first
    assert find_sinks(with_sinks, [short], layers=[0], rows=[0, 1])[0].share == pytest.approx(1 / 3)
    shorter = Corpus("en", ["the cat", "we drink"])  # half of the tokens come first
    assert find_sinks(with_sinks, [shorter], layers=[0], rows=[0, 1])[0].share == pytest.approx(1 / 2)
    assert not find_sinks(with_sinks, [Corpus("en", ["the", "we"])], layers=[0], rows=[0, 1]), "nothing else is left"


def test_vectors_leave_sinks_out_where_they_are_asked_to(with_sinks):
    found = find_sinks(with_sinks, [CORPUS], layers=[1, DEPTH], rows=range(len(TEXT)))
    (without,) = stream(with_sinks, CORPUS, layers=[1, DEPTH], sinks=found)
    given = vectors(with_sinks, CORPUS, layers=[1, DEPTH], keep_sinks=False)
    assert torch.equal(given, without.values["sentence"])
    assert not torch.allclose(given, vectors(with_sinks, CORPUS, layers=[1, DEPTH]), atol=0.1)


@pytest.mark.parametrize("family", ["llama", "modernbert", "bert"])
def test_the_top_cut_can_be_read_after_the_last_norm(tiny, family):
    stack = load(tiny(family))
    normed = replace(stack, normed=True)
    ours, plain, reference = vectors(normed, CORPUS), vectors(stack, CORPUS), plain_masked_mean(stack, TEXT)
    torch.testing.assert_close(ours, reference, atol=1e-5, rtol=0)
    assert torch.equal(ours[:-1], plain[:-1]) and torch.equal(ours[-1], plain[-1]) is (family == "bert")
    torch.testing.assert_close(vectors(normed, CORPUS, layers=[DEPTH])[0], reference[-1], atol=1e-5, rtol=0)
