"""What a tokenizer costs: counts and bits against explicit loops, with and without weights, and what is refused."""

import math
import shutil

import numpy as np
import pytest
import torch
from benchmarks.invented import invented
from scipy import stats

import isogloss as ig
from isogloss.measures.statistics import ratio_interval
from isogloss.recipes.tokens import language_model_bits
from isogloss.seeds import seed_of
from isogloss.stack.load import wrap
from isogloss.text.batches import known_text, marks, tokenise
from isogloss.text.masking import fixed_masks, masking_of
from isogloss.text.words import words_of
from isogloss.training.perplexities import perplexity_probe
from tiny_commands import command_line
from tiny_models import TEXT, byte_level_tokenizer, tiny_language_model, tiny_tokenizer


def value(table, measure, source):
    return table[(table.measure == measure) & (table.source == source)].iloc[0]


@pytest.fixture(scope="module")
def text():
    return invented(("qaa", "qab", "qac"), sentences=50, seed=5)


def test_counts_are_those_of_a_loop(tiny, text):
    table = ig.tokens(tiny("bert"), text, reference="qab", seed=1)
    order = np.random.default_rng(1).permutation(text.rows)
    tokenizer = tiny_tokenizer()
    tokens = {language: np.zeros(20) for language in text.languages}
    for corpus in text:
        words = characters = unknown = 0
        for place, row in enumerate(order):
            pieces = tokenizer.tokenize(corpus.sentences[row])
            tokens[corpus.language][place % 20] += len(pieces)
            words += len(words_of(corpus, row))
            characters += len(corpus.sentences[row])
            unknown += pieces.count("[UNK]")
        total = tokens[corpus.language].sum()
        found = [value(table, name, corpus.language).value for name in
                 ("tokens_per_word", "tokens_per_character", "unknown_tokens", "byte_tokens")]  # fmt: skip
        assert found == pytest.approx([total / words, total / characters, unknown / total, 0])
    above, below = tokens["qac"], tokens["qab"]
    parts = [(above.sum() - above[part]) / (below.sum() - below[part]) for part in range(20)]
    reach = stats.t.ppf(0.975, 19) * math.sqrt(19 / 20 * sum((part - np.mean(parts)) ** 2 for part in parts))
    premium = value(table, "premium", "qac")
    expected = above.sum() / below.sum()
    assert (premium.value, premium.low, premium.high) == pytest.approx((expected, expected - reach, expected + reach))
    assert (premium.target, premium.n, premium.over) == ("qab", 50, "items")
    assert "qab" not in set(table[table.measure == "premium"].source), "it is what the others are over"


def test_a_ratio_without_some_blocks_and_of_few():
    whole = ratio_interval(torch.tensor([1.0, 3.0, 0.0, 2.0]), torch.tensor([1.0, 1.0, 0.0, 2.0]))
    assert whole.value == 1.5 and whole.known and len(whole.parts) == 3
    assert not ratio_interval(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 1.0])).known


def test_english_is_the_reference_and_bytes_are_counted(tmp_path):
    byte_level_tokenizer().save_pretrained(tmp_path)
    en, zh, fr = (ig.Corpus(code, sentences) for code, sentences in
                  (("en", ["a cat", "yes"]), ("zh", ["猫", "是"]), ("fr", ["été", "oui"])))  # fmt: skip
    table = ig.tokens(tmp_path, zh, en, fr)
    assert value(table, "premium", "zh").value == 6 / 8 and value(table, "premium", "zh").target == "en"
    assert [value(table, "byte_tokens", code).value for code in ("en", "zh", "fr")] == [0, 1, 4 / 8]
    assert set(table[table.measure == "unknown_tokens"].value) == {0}


def test_no_weights_are_needed(tiny, text, tmp_path):
    folder = tmp_path / "alone"
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(f"{tiny('bert')}/{name}", folder)
    whole, alone, file = (ig.tokens(model, text) for model in (tiny("bert"), folder, folder / "tokenizer.json"))
    assert alone.value.tolist() == whole.value.tolist() == file.value.tolist()


def test_bits_per_byte_of_a_decoder_are_its_likelihood(text):
    model, tokenizer = tiny_language_model("gpt2"), tiny_tokenizer()
    tokenizer.bos_token = "[CLS]"  # which is also what the tokenizer begins a text with
    corpus = ig.Corpus("qaa", [*TEXT, text["qaa"].sentences[0]])
    reading = language_model_bits(wrap(model, tokenizer), corpus)
    nats = bytes_read = tokens = 0
    for sentence in corpus:
        encoded = tokenizer(sentence, return_tensors="pt", return_offsets_mapping=True)
        ids = encoded["input_ids"]
        with torch.no_grad():
            logs = model(input_ids=ids).logits[0].double().log_softmax(-1)
        for place in range(1, ids.shape[1] - 1):  # less the [SEP] at its end
            if ids[0, place] == tokenizer.unk_token_id:
                start, end = encoded["offset_mapping"][0, place].tolist()
                space = len(sentence[:start]) - len(sentence[:start].rstrip())
                bytes_read -= len(sentence[start:end].encode()) + space
            else:
                nats -= float(logs[place - 1, ids[0, place]])
                tokens += 1
        bytes_read += len(sentence.encode())
    assert reading.value == pytest.approx(nats / math.log(2) / bytes_read, rel=1e-5)
    assert reading.n == tokens and reading.low < reading.value < reading.high


def test_text_that_is_unknown_does_not_make_a_language_easier():
    """Its tokens are not predicted, so its bytes are not counted: the loss of what is left stands."""
    model, tokenizer = tiny_language_model("bert"), tiny_tokenizer()
    known = " ".join(TEXT)
    words = [word for word in known.split() if tokenizer.unk_token not in tokenizer.tokenize(word)][:6]
    mixed = ig.Corpus("en", [f"{words[0]} ☃☃☃☃ {' '.join(words[1:])} ☃☃"])
    assert known_text(tokenizer, mixed, 0) == (" ".join(words), len(words))
    sentences = tokenise(tokenizer, mixed, max_length=64)
    assert (sentences.words, sentences.characters) == (len(words), len(" ".join(words)))
    reading = language_model_bits(wrap(model, tokenizer), mixed)
    of_tokens = perplexity_of(model, tokenizer, mixed)
    tokens = sum(len(tokenizer.tokenize(word)) for word in words)
    assert reading.value == pytest.approx(math.log2(of_tokens) * tokens / len(" ".join(words).encode()), rel=1e-5)


def perplexity_of(model, tokenizer, corpus):
    """Perplexity per token of a masked LM."""
    sentences, masking = tokenise(tokenizer, corpus, max_length=64), masking_of(tokenizer)
    probe = perplexity_probe(model, [sentences], every=1, seed=0, masking=masking, device="cpu")
    return next(reading["value"] for reading in probe.take() if reading["unit"] == "token")


def test_a_first_token_is_put_before_texts_that_have_none():
    model, tokenizer = tiny_language_model("llama"), tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = None
    tokenizer.add_special_tokens({"eos_token": "[SEP]"})
    corpus = ig.Corpus("en", TEXT[:3])
    nats = 0
    for sentence in corpus:
        ids = [tokenizer.eos_token_id, *tokenizer(sentence)["input_ids"]]
        with torch.no_grad():
            logs = model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
        nats -= sum(float(logs[place - 1, ids[place]]) for place in range(1, len(ids)))
    expected = nats / math.log(2) / sum(len(sentence.encode()) for sentence in corpus)
    assert language_model_bits(wrap(model, tokenizer), corpus).value == pytest.approx(expected, rel=1e-5)


def test_bits_per_byte_of_a_masked_model_are_the_surprise_of_masked_tokens():
    model, tokenizer = tiny_language_model("bert"), tiny_tokenizer()
    corpus, masking = ig.Corpus("en", TEXT), masking_of(tokenizer)
    reading = language_model_bits(wrap(model, tokenizer), corpus, seed=4)
    key, nats, asked, tokens = seed_of(4, "sentence masks", "en", "en"), 0.0, 0, 0
    for number, sentence in enumerate(TEXT):
        ids = np.array(tokenizer(sentence)["input_ids"])
        content = ~np.isin(ids, [*marks(tokenizer), tokenizer.mask_token_id, tokenizer.unk_token_id])
        how = {"mask_id": tokenizer.mask_token_id, "pool": masking.pool.numpy(), "seed": key, "first": number}
        inputs, chosen = fixed_masks(ids, np.array([len(ids)]), content=content, **how)
        with torch.no_grad():
            logs = model(input_ids=torch.from_numpy(inputs[None].astype(np.int64))).logits[0].double().log_softmax(-1)
        for place in np.flatnonzero(chosen):
            nats -= float(logs[place, ids[place]])
            asked += 1
        tokens += int(content.sum())
    characters, size = sum(map(len, TEXT)), sum(len(sentence.encode()) for sentence in TEXT)
    assert reading.value == pytest.approx(
        nats / asked * tokens / characters / math.log(2) * characters / size, rel=1e-5
    )


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_bits_stand_in_the_table_where_they_are_asked_for(family, text, tmp_path):
    tokenizer = tiny_tokenizer()
    tokenizer.bos_token = "[CLS]"
    tiny_language_model(family).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    table = ig.tokens(tmp_path / "model", text.take(range(30)), bits=True, out=tmp_path / "run")
    bits = table[table.measure == "bits_per_byte"]
    assert set(bits.method) == {"causal" if family == "gpt2" else "masked"} and set(bits.source) == set(text.languages)
    assert "bits_per_byte" not in set(ig.tokens(tmp_path / "model", text).measure)


def test_mistakes_are_one_sentence(tiny, text, tmp_path, monkeypatch, capsys):
    run = command_line(monkeypatch, capsys)
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    for words, sentence in [
        ([tmp_path / "bad.json"], "cannot be loaded as a tokenizer"),
        ([tmp_path / "empty"], "cannot be loaded as a tokenizer"),
        ([tmp_path / "none.json"], "there is no folder"),
        ([tiny("bert"), "--reference", "fr", "--languages", "en,nl"], "--reference fr: everyday.tsv has en, nl"),
        ([tiny("bert"), "--bits"], "has no head that predicts masked words"),
        ([tiny("bert"), "--sample", "0"], "--sample must be at least 1, not 0"),
    ]:
        code, _, told = run("tokens", *words, "--out", tmp_path / "run")
        assert code == 2 and sentence in told and told.count("\n") == 1, told
        assert not (tmp_path / "run").exists()
