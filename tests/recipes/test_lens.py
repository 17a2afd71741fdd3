"""The head at every layer, against explicit loops over `hidden_states`; prompts, floors, and what is refused."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import t

import isogloss as ig
from isogloss.errors import InputError
from isogloss.recipes.lens import GRID, linked_lexicons
from isogloss.report import write_page
from isogloss.runs import read_facts
from isogloss.stack import head as heads
from isogloss.stack.load import wrap
from isogloss.text.pieces import beginnings, first_pieces, piece_bytes
from isogloss.vectors.lens import Lens
from tiny_commands import command_line
from tiny_models import DEPTH, TEXT, byte_level_tokenizer, tiny_language_model, tiny_tokenizer

WORDS = ig.Lexicon("en", "nl", [("cat", "stoel"), ("bread", "op"), ("garden", "slaapt"), ("man", "de")])
SCRIPTS = ("Chinese", "Cyrillic", "Latin")


def norm(model, family, states):
    return {"gpt2": lambda: model.transformer.ln_f, "llama": lambda: model.model.norm}[family]()(states)


def distributions(model, family, text, tokenizer):
    """Of every layer the probabilities over the vocabulary at every place of a text, and its ids."""
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        states = model(input_ids=ids, output_hidden_states=True).hidden_states
        # The last one is after the norm already.
        normed = [norm(model, family, each[0]) for each in states[:-1]] + [states[-1][0]]
        return [model.get_output_embeddings()(each).double().softmax(-1) for each in normed], ids[0].tolist()


def named(table, measure, layer, **where):
    chosen = table[(table.measure == measure) & (table.layer == layer)]
    for column, cell in where.items():
        chosen = chosen[chosen[column] == cell]
    assert len(chosen) == 1, chosen
    return chosen.iloc[0]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_next_tokens_are_those_of_a_loop(family, monkeypatch):
    model, tokenizer = tiny_language_model(family), tiny_tokenizer()
    monkeypatch.setattr(heads, "SCORES_AT_ONCE", 3 * len(tokenizer))  # several blocks a batch
    corpus = ig.Corpus("en", TEXT)
    table = ig.lens(wrap(model, tokenizer), corpus, prompts=0)
    sums = np.zeros((DEPTH + 1, 4))
    chinese = [number for piece, number in tokenizer.get_vocab().items() if piece[0] in "猫在椅子上睡觉"]
    n = 0
    for text in TEXT:
        layers, ids = distributions(model, family, text, tokenizer)
        for place in range(1, len(ids) - 1):
            n += 1
            for layer, chances in enumerate(layers):
                own = chances[place - 1]
                rank = 1 + int((own > own[ids[place]]).sum())
                entropy = -sum(p * math.log2(p) for p in own.tolist() if p > 0)
                sums[layer] += [float(own[ids[place]]), 1 / rank, entropy, float(own[chinese].sum())]
    for layer in range(DEPTH + 1):
        expected = sums[layer] / n
        readings = [named(table, name, layer) for name in ("next_token_probability", "next_token_mrr", "entropy")]
        readings.append(named(table, "script_share", layer, condition="Chinese"))
        assert [reading.value for reading in readings] == pytest.approx(expected, rel=1e-4)
        assert {reading.n for reading in readings} == {n} and all(reading.low <= reading.value for reading in readings)
        assert readings[3].floor == pytest.approx(len(chinese) / len(tokenizer))


def test_prompts_are_read_where_the_word_would_begin():
    model, tokenizer = tiny_language_model("gpt2"), tiny_tokenizer()
    stack = wrap(model, tokenizer)
    en = ig.Corpus("en", TEXT)
    table = ig.lens(stack, en, lexicon=[WORDS], sample=0, shots=2, seed=3)
    from isogloss.text.prompts import Prompting, meanings, translations

    asked = translations(meanings([WORDS], "en"), "en", "nl", Prompting("en", 50, 2, 3, lambda words: True))
    known = beginnings(piece_bytes(tokenizer))
    found = {language: [[] for _ in range(DEPTH + 1)] for language in ("nl", "en")}
    chance = {language: [[] for _ in range(DEPTH + 1)] for language in ("nl", "en")}
    for number, prompt in enumerate(asked.prompts):
        layers, ids = distributions(model, "gpt2", prompt.text, tokenizer)
        place = len(ids) - 2  # the last token but [SEP]
        for layer, chances in enumerate(layers):
            for language in found:
                other = asked.prompts[(number + 1) % len(asked.prompts)]
                for words, sums in ((prompt.words, found), (other.words, chance)):
                    pieces = first_pieces(words[language], known)
                    sums[language][layer].append(sum(float(chances[place, piece]) for piece in pieces))
    for layer in range(DEPTH + 1):
        for language in found:
            reading = named(table, "word_probability", layer, condition=language, task="translation")
            values = found[language][layer]
            assert reading.value == pytest.approx(np.mean(values), rel=1e-4)
            assert reading.floor == pytest.approx(np.mean(chance[language][layer]), rel=1e-4)
            share, n, z = np.mean(values), len(values), t.ppf(0.975, len(values) - 1)
            items = n * share * (1 - share) / np.var(values)
            root = math.sqrt(share * (1 - share) / items + (z / (2 * items)) ** 2)
            assert reading.high == pytest.approx(
                (share + z * z / (2 * items) + z * root) / (1 + z * z / items), rel=1e-3
            )
    assert "pivot_lead" not in set(table.measure), "the pivot is what the prompts show"


def test_a_pivot_that_no_prompt_shows_has_a_lead():
    stack = wrap(tiny_language_model("gpt2"), tiny_tokenizer())
    french = ig.Lexicon("en", "fr", [("cat", "lunch"), ("bread", "book"), ("garden", "every"), ("man", "yes")])
    table = ig.lens(stack, ig.Corpus("en", TEXT), lexicon=[WORDS, french], sample=0, layers="1,3")
    for source, target in (("nl", "fr"), ("fr", "nl")):
        where = {"layer": 3, "source": source, "target": target}
        words = {code: named(table, "word_probability", condition=code, **where).value for code in ("en", "fr", "nl")}
        lead = named(table, "pivot_lead", **where)
        assert lead.value == pytest.approx(words["en"] - words[target]) and lead.low < lead.value < lead.high


def test_words_that_share_a_piece_are_not_asked_for():
    tokenizer = byte_level_tokenizer()
    tokenizer.add_special_tokens({"eos_token": "<end>"})
    stack = wrap(tiny_language_model("gpt2", vocabulary=len(tokenizer)), tokenizer)
    lens = Lens(stack, [0], ["Latin"])
    assert lens.askable({"en": ["cat"], "fr": ["livre"]})
    assert not lens.askable({"en": ["flower"], "fr": ["fleur"]})
    assert not lens.askable({"en": [""], "fr": ["fleur"]})


def test_a_masked_model_is_asked_at_its_masks():
    model, tokenizer = tiny_language_model("bert"), tiny_tokenizer()
    stack = wrap(model, tokenizer)
    lens = Lens(stack, [0, DEPTH], SCRIPTS)
    (asked,) = lens.asked_of_text(ig.Corpus("en", TEXT[:4]), 7)
    batch, at = asked.batch, 0
    expected = []
    for length in batch.lengths.tolist():
        with torch.no_grad():
            chances = model(input_ids=batch.ids[None, at : at + length]).logits[0].double().softmax(-1)
        for place, label in zip(asked.states.tolist(), asked.labels[:, 0].tolist(), strict=True):
            if at <= place < at + length:
                expected.append(float(chances[place - at, label]))
        at += length
    assert lens.read(asked)[-1].mass[:, 0].tolist() == pytest.approx(expected, rel=1e-4)
    parts = list(lens.asked_of_text(ig.Corpus("en", TEXT * 8), 7))
    seen = torch.cat([part.batch.ids[part.states] for part in parts])  # training would leave a tenth to be seen
    assert set(seen.tolist()) == {tokenizer.mask_token_id} and len(seen) > 50
    table = ig.lens(stack, ig.Corpus("en", TEXT), lexicon=[WORDS], shots=1, sample=4)
    assert {"text", "translation"} <= set(table.task)
    assert set(table[table.task == "text"].unit) == {"masked token"}


def test_prompts_that_are_too_long_are_left_out_with_a_note(tmp_path):
    stack = wrap(tiny_language_model("gpt2"), tiny_tokenizer())
    long = ig.Lexicon("en", "nl", [(f"{word} {'cat ' * 40}", other) for word, other in WORDS])
    table = ig.lens(stack, ig.Corpus("en", TEXT), lexicon=[long], sample=3, layers="3", out=tmp_path / "run")
    assert set(table.task) == {"text"}
    (note,) = read_facts(tmp_path / "run")["notes"]
    assert note.startswith("translation from en to nl was left out: every prompt is longer than the model reads")


def test_dictionaries_are_asked_once_whatever_the_number_of_texts(tmp_path):
    stack = wrap(tiny_language_model("gpt2"), tiny_tokenizer())
    texts = [ig.Bitext((ig.Corpus("en", TEXT), ig.Corpus("nl", TEXT)), name=name) for name in ("one", "two")]
    how = {"lexicon": [WORDS], "layers": "3", "shots": 3}
    table = ig.lens(stack, *texts, **how, out=tmp_path / "run")
    alone = ig.lens(stack, texts[0], **how)
    asked, same = (each[each.task == "translation"].reset_index(drop=True) for each in (table, alone))
    pd.testing.assert_frame_equal(asked, same)
    assert set(asked.data) == {""} and set(table[table.task != "translation"].data) == {"one", "two"}


def test_prompts_with_fewer_examples_are_noted(tmp_path):
    stack = wrap(tiny_language_model("gpt2"), tiny_tokenizer())
    for shots in (3, 4):
        how = {"lexicon": [WORDS], "layers": "3", "shots": shots, "out": tmp_path / str(shots)}
        ig.lens(stack, ig.Corpus("en", TEXT), **how)
    assert not read_facts(tmp_path / "3")["notes"], "three others are left"
    (note,) = read_facts(tmp_path / "4")["notes"]
    assert note.startswith("translation from en to nl: 4 of 4 prompts have fewer than 4 examples")


def test_links_of_the_text_make_the_dictionaries():
    lexicons = linked_lexicons(ig.embedded(("en", "nl", "de")), "en")
    assert [(own.source, own.target) for own in lexicons] == [("en", "nl"), ("en", "de")]
    assert ("cat", "kat") in list(lexicons[0])


def test_a_run_is_resumed_and_leaves_its_grids(tmp_path):
    stack = wrap(tiny_language_model("gpt2"), tiny_tokenizer())
    given = {"lexicon": [WORDS], "sample": 4, "layers": "0,3", "out": tmp_path / "run"}
    table = ig.lens(stack, ig.Corpus("en", TEXT), **given)
    cells = pd.read_parquet(tmp_path / "run" / GRID)
    assert set(cells.task) == {"text", "translation"} and set(cells.layer) == {0, 3}
    own = cells[(cells.task == "translation") & (cells.layer == 3)]
    asked = named(table, "word_probability", 3, condition="nl")
    assert own.value.mean() == pytest.approx(asked.value) and set(own.label) == {"stoel", "op", "slaapt", "de"}
    again = ig.lens(stack, ig.Corpus("en", TEXT), **given, resume=True)
    pd.testing.assert_frame_equal(table, again)
    (tmp_path / "run" / GRID).unlink()
    with pytest.raises(InputError, match=f"{GRID} is missing, which a finished run has"):
        write_page([tmp_path / "run"], tmp_path / "page.html")


def test_mistakes_are_one_sentence(tiny, tmp_path, monkeypatch, capsys):
    run = command_line(monkeypatch, capsys)
    (tmp_path / "words.txt").write_text("chat kat\n")
    lexicon = f"fr-nl={tmp_path / 'words.txt'}"
    for words, sentence in [
        ([tiny("bert")], "has no head that predicts masked words"),
        ([tiny("t5")], "is an encoder-decoder, whose encoder predicts no words"),
        ([tiny("gpt2"), "--pivot", "th"], "--pivot th is no language of the text"),
        ([tiny("gpt2"), "--lexicon", "words.txt"], "--lexicon takes SOURCE-TARGET=FILE"),
        ([tiny("gpt2"), "--lexicon", lexicon], "has no words of the pivot language en"),
        ([tiny("gpt2"), "--layers", "9"], "--layers asks for 9"),
        ([tiny("gpt2"), "--sample", "0", "--prompts", "0"], "--sample 0 and --prompts 0 leave nothing to read"),
    ]:
        code, _, told = run("lens", *words, "--out", tmp_path / "run")
        assert code == 2 and sentence in told and told.count("\n") == 1, told
        assert not (tmp_path / "run").exists()
