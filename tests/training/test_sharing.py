"""What is shared moves for every language, what is separate for its own, and each language's model stands alone."""

import json
import re

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForMaskedLM, GPT2Config

from isogloss.errors import InputError
from isogloss.stack import load, measuring
from isogloss.stack.head import scores
from isogloss.text.corpora import Corpus
from isogloss.training.sharing import Sharing, build, parse, save, stack_of
from isogloss.vectors import vectors
from tiny_models import DEPTH, ENCODERS, TEXT, states_at, tiny_config, tiny_tokenizer

VOCABULARY = 60
VARIANTS = ("nothing", "embeddings", "1-2", "embeddings+1-2")
VOCABULARY_PARTS = (
    r"embeddings|relative_attention_bias|decoder\.|projector|generator_lm_head|predictions\.bias|lm_head\.bias"
)


def weights(model):
    """Every weight by name, a tied one under each of its names."""
    return dict(model.named_parameters(remove_duplicate=False))


def is_separate(name, variant):
    """Told from the weight's name alone."""
    sharing = parse(variant)
    block = re.search(r"layers?\.(\d+)\.", name)
    if block:
        return int(block[1]) < sharing.blocks
    return bool(re.search(VOCABULARY_PARTS, name)) and not sharing.embeddings


def shaken(languages):
    """As after some training: no weight is zero, one, or equal between languages by its draw."""
    draw = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for weight in languages.parameters():
            weight += 0.2 * torch.randn(weight.shape, generator=draw)
    return languages


def loss_of(model):
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(5, VOCABULARY, (3, 9), generator=draw)
    places = torch.tensor([[1, 4], [2, 3], [0, 8]])
    return torch.nn.functional.cross_entropy(
        scores(model, states_at(model, ids, places)).flatten(0, 1), ids[:, :2].flatten()
    )


@pytest.mark.parametrize(
    ("text", "sharing"),
    [
        ("nothing", Sharing()),
        ("embeddings", Sharing(embeddings=False)),
        ("1-3", Sharing(blocks=3)),
        ("1-6", Sharing(blocks=6)),
        ("embeddings+1-12", Sharing(embeddings=False, blocks=12)),
    ],
)
def test_what_is_separate_is_read_and_said_alike(text, sharing):
    assert parse(text) == sharing
    assert str(sharing) == text


@pytest.mark.parametrize(
    "text", ["", "all", "2-3", "1-0", "3", "1-3+embeddings", "embeddings+", "1-", "1-3 ", "1-\u0663"]
)
def test_other_forms_are_refused_with_the_right_ones(text):
    with pytest.raises(InputError, match=re.escape("embeddings+1-3")):
        parse(text)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", ENCODERS)
def test_a_step_on_one_language_moves_the_shared_parts_of_the_other(family, variant):
    both = build(tiny_config(family, VOCABULARY), ["en", "nl"], sharing=parse(variant), seed=0)
    english, dutch = weights(both.of("en")), weights(both.of("nl"))
    for name, weight in dutch.items():
        assert (weight is not english[name]) == is_separate(name, variant), name
        if is_separate(name, variant) and weight.dim() > 1:
            assert not torch.equal(weight, english[name]), f"{name} was drawn alike"
    before = {name: weight.detach().clone() for name, weight in dutch.items()}
    own = {name: weight.detach().clone() for name, weight in english.items()}

    optimiser = torch.optim.SGD(both.parameters(), lr=0.5)
    loss_of(both.of("en").eval()).backward()
    optimiser.step()
    for name, weight in dutch.items():
        if is_separate(name, variant):
            assert torch.equal(weight, before[name]), name
        elif weight.dim() > 1:
            assert not torch.equal(weight, before[name]), name
        if weight.dim() > 1:
            assert not torch.equal(english[name], own[name]), name


def count_by_hand(family, vocabulary):
    """Weights of the vocabulary's part, of each block, and of what is above, at width 32 and 64 inside."""
    if family == "bert":
        embeddings = vocabulary * 32 + 66 * 32 + 2 * 32 + 2 * 32
        block = 4 * (32 * 32 + 32) + 2 * 32 + (32 * 64 + 64) + (64 * 32 + 32) + 2 * 32
        return embeddings + vocabulary, [block] * 3, 32 * 32 + 32 + 2 * 32
    block = 4 * 32 * 32 + 32 * 2 * 64 + 64 * 32 + 32  # no biases, a gated inner layer, the norm before it
    blocks = [block, block + 32, block + 32]  # the first has no norm before attention
    return vocabulary * 32 + 32 + vocabulary, blocks, 32 + 32 * 32 + 32


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_every_weight_is_counted_once(family, variant):
    sizes = {"en": 60, "nl": 60 if parse(variant).embeddings else 45, "ru": 60}
    configs = {language: tiny_config(family, size) for language, size in sizes.items()}
    three = build(configs, list(sizes), sharing=parse(variant), seed=0)
    _, blocks, above = count_by_hand(family, 60)
    separate = parse(variant).blocks
    expected = 3 * sum(blocks[:separate]) + sum(blocks[separate:]) + above
    own = [count_by_hand(family, size)[0] for size in sizes.values()]
    expected += own[0] if parse(variant).embeddings else sum(own)
    assert sum(weight.numel() for weight in three.parameters()) == expected
    assert three.of("nl").get_output_embeddings().weight is three.of("nl").get_input_embeddings().weight
    assert three.of("nl").get_output_embeddings().weight.shape == (sizes["nl"], 32)


def test_the_draw_depends_on_seed_and_language_alone():
    config = tiny_config("bert", VOCABULARY)
    state = torch.get_rng_state()
    once, again, other = (build(config, ["en", "nl"], sharing=parse("embeddings+1-2"), seed=s) for s in (4, 4, 5))
    alone = {language: build(config, [language], sharing=Sharing(), seed=4) for language in ("en", "nl")}
    assert torch.equal(torch.get_rng_state(), state)
    for (name, weight), same, changed in zip(
        once.named_parameters(), again.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(weight, same), name
        assert weight.dim() == 1 or not torch.equal(weight, changed), name
    for name, weight in weights(once.of("nl")).items():
        source = "nl" if is_separate(name, "embeddings+1-2") else "en"
        assert torch.equal(weight, weights(alone[source].of(source))[name]), name
    assert all(torch.equal(a, b) for a, b in zip(once.of("en").parameters(), alone["en"].parameters(), strict=True))


def test_one_model_serves_all_where_everything_is_shared():
    both = build(tiny_config("bert", VOCABULARY), ["en", "nl"], sharing=Sharing(), seed=0)
    assert list(both.models) == ["all"]
    assert both.of("en") is both.of("nl")


def test_any_language_code_can_be_held():
    codes = ["to", "zh.Hant", "pt-br", "all"]
    models = build(tiny_config("distilbert", VOCABULARY), codes, sharing=parse("1-1"), seed=0)
    assert len({id(models.of(code)) for code in codes}) == 4


def tokenizers():
    return {"en": tiny_tokenizer(), "ru": tiny_tokenizer(TEXT[4:6], size=40)}


@pytest.mark.parametrize("family", ENCODERS)
def test_a_saved_language_stands_alone(tmp_path, family):
    own = tokenizers()
    configs = {language: tiny_config(family, len(tokenizer)) for language, tokenizer in own.items()}
    assert configs["en"].vocab_size != configs["ru"].vocab_size
    both = shaken(build(configs, list(own), sharing=parse("embeddings+1-2"), seed=0))
    save(both, own, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["en", "ru"]
    for language, tokenizer in own.items():
        model = both.of(language)
        loaded = AutoModelForMaskedLM.from_pretrained(tmp_path / language)
        assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
        assert loaded.get_input_embeddings().weight.shape[0] == len(tokenizer)
        assert weights(loaded).keys() == weights(model).keys()
        for name, weight in weights(loaded).items():
            assert torch.equal(weight, weights(model)[name]), name
        ids = torch.tensor([[2, 7, 4, 9, 3]])
        with measuring(model), measuring(loaded):
            assert torch.equal(loaded(ids).logits, model(ids).logits)
        stack = stack_of(both, language, tokenizer, "both")
        corpus = Corpus(language, TEXT)
        found = vectors(stack, corpus)
        assert model.training, "measuring leaves the mode as it was"
        assert found.shape == (DEPTH + 1, len(TEXT), 32)
        assert torch.equal(found, vectors(load(tmp_path / language), corpus))
        assert next(stack.model.parameters()) is next(model.base_model.parameters())


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "distilbert"])
def test_separate_blocks_over_shared_embeddings_are_saved_for_each_language(tmp_path, family):
    tokenizer = tiny_tokenizer()
    config = tiny_config(family, len(tokenizer))
    both = shaken(build(config, ["en", "nl"], sharing=parse("1-2"), seed=0))
    save(both, dict.fromkeys(["en", "nl"], tokenizer), tmp_path)
    corpus = Corpus("en", TEXT)
    found = {language: vectors(load(tmp_path / language), corpus) for language in ("en", "nl")}
    for language, values in found.items():
        assert torch.equal(values, vectors(stack_of(both, language, tokenizer, "both"), corpus))
    assert torch.equal(found["en"][0], found["nl"][0])
    assert not torch.allclose(found["en"][1], found["nl"][1], atol=1e-2)


def test_one_tokenizer_and_everything_shared_is_one_folder(tmp_path):
    tokenizer = tiny_tokenizer()
    both = shaken(build(tiny_config("modernbert", len(tokenizer)), ["en", "nl"], sharing=Sharing(), seed=0))
    save(both, {"en": tokenizer, "nl": tokenizer}, tmp_path / "one")
    corpus = Corpus("en", TEXT)
    here = vectors(stack_of(both, "nl", tokenizer, "both"), corpus)
    assert torch.equal(vectors(load(tmp_path / "one"), corpus), here)
    save(both, tokenizers() | {"nl": tiny_tokenizer()}, tmp_path / "two")
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["en", "nl"]


def test_a_tokenizer_is_saved_without_the_length_of_its_last_call(tmp_path):
    tokenizer = tiny_tokenizer()
    one = build({"en": tiny_config("bert", len(tokenizer))}, ["en"], sharing=parse("nothing"), seed=0)
    tokenizer(TEXT, truncation=True, max_length=4)
    save(one, {"en": tokenizer}, tmp_path)
    assert json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["truncation"] is None


def test_half_precision_is_on_disk_only(tmp_path):
    tokenizer = tiny_tokenizer()
    one = shaken(build(tiny_config("bert", len(tokenizer)), ["en"], sharing=Sharing(), seed=0))
    before = {name: weight.detach().clone() for name, weight in one.named_parameters()}
    save(one, {"en": tokenizer}, tmp_path, half=True)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118
        assert "cls.predictions.decoder.weight" not in file.keys()  # noqa: SIM118
    assert all(torch.equal(weight, before[name]) for name, weight in one.named_parameters())
    loaded = weights(AutoModelForMaskedLM.from_pretrained(tmp_path, dtype=torch.float32))
    for name, weight in weights(one.of("en")).items():
        assert torch.equal(loaded[name], weight.half().float()), name
    corpus = Corpus("en", TEXT)
    here = vectors(stack_of(one, "en", tokenizer, "one"), corpus)
    torch.testing.assert_close(vectors(load(tmp_path), corpus), here, atol=0.02, rtol=0.02)


def test_weights_that_half_precision_cannot_hold_are_refused_not_stored_as_infinite(tmp_path):
    tokenizer = tiny_tokenizer()
    one = build(tiny_config("bert", len(tokenizer)), ["en"], sharing=Sharing(), seed=0)
    with torch.no_grad():
        one.of("en").bert.encoder.layer[0].output.dense.weight[0, 0] = -70_000.0
    with pytest.raises(InputError, match=r"layer\.0\.output\.dense\.weight has a weight beyond 65,504.*store float32"):
        save(one, {"en": tokenizer}, tmp_path / "half", half=True)
    assert not (tmp_path / "half").exists()
    save(one, {"en": tokenizer}, tmp_path / "full")


def test_what_cannot_be_built_is_refused():
    config, smaller = tiny_config("bert", 60), tiny_config("bert", 45)
    with pytest.raises(InputError, match="en has 60.*nl 45"):
        build({"en": config, "nl": smaller}, ["en", "nl"], sharing=parse("1-2"), seed=0)
    with pytest.raises(InputError, match="'gpt2'.*modernbert"):
        build(GPT2Config(), ["en"], sharing=Sharing(), seed=0)
