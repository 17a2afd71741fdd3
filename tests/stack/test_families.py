"""Configurations of new encoders: every family as asked, able to read what it will be given."""

import json

import pytest
import torch
from transformers import AutoModelForMaskedLM

from isogloss.errors import InputError
from isogloss.stack.families import FAMILIES, configure
from tiny_models import tiny_tokenizer

ENCODERS = [name for name, family in FAMILIES.items() if family.kind == "encoder"]
SHAPE = {"vocabulary": 90, "depth": 2, "width": 24, "heads": 3, "length": 20}


def built(config):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForMaskedLM.from_config(config)


@pytest.mark.parametrize("family", ENCODERS)
def test_every_family_has_the_shape_that_was_asked(family):
    config = configure(family, **SHAPE, feedforward=40, dropout=0.25)
    assert config.model_type == family
    found = (config.vocab_size, config.hidden_size, config.num_hidden_layers, config.num_attention_heads)
    assert found == (90, 24, 2, 3)
    model = built(config)
    wide = {tuple(weight.shape) for weight in model.parameters() if weight.dim() == 2}
    assert (40, 24) in wide or (80, 24) in wide, "the width inside the layers, twice it where gated"
    shares = {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}
    assert shares <= {0.25, 0.0} and 0.25 in shares
    ids = torch.randint(5, 90, (2, SHAPE["length"]), generator=torch.Generator().manual_seed(0))
    assert model.eval()(input_ids=ids).logits.shape == (2, 20, 90), "as long as it may be"
    model.train()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        assert not torch.equal(model(input_ids=ids).logits, model(input_ids=ids).logits), "dropout is on"
        silent = built(configure(family, **SHAPE)).train()
        assert torch.equal(silent(input_ids=ids).logits, silent(input_ids=ids).logits), "and off by default"


@pytest.mark.parametrize("family", ENCODERS)
def test_special_tokens_are_the_tokenizers(family):
    tokenizer = tiny_tokenizer()
    config = configure(family, **SHAPE, tokenizer=tokenizer)
    assert config.pad_token_id == tokenizer.pad_token_id
    assert (config.bos_token_id, config.eos_token_id) == (tokenizer.cls_token_id, tokenizer.sep_token_id)


def test_modernbert_attends_everywhere_in_every_layer():
    config = configure("modernbert", **SHAPE | {"depth": 5})
    assert set(config.layer_types) == {"full_attention"}
    assert len(config.layer_types) == 5
    assert config.intermediate_size == 64
    assert config.max_position_embeddings == 512
    assert configure("modernbert", **SHAPE | {"length": 1024}).max_position_embeddings == 1024


def test_a_json_file_overrides_anything(tmp_path):
    path = tmp_path / "more.json"
    path.write_text(json.dumps({"hidden_act": "relu", "intermediate_size": 7}))
    config = configure("bert", **SHAPE, more=path)
    assert (config.hidden_act, config.intermediate_size, config.hidden_size) == ("relu", 7, 24)


@pytest.mark.parametrize("family", ["bert", "distilbert", "electra", "modernbert", "mpnet", "xlm-roberta"])
def test_every_field_of_a_family_may_be_in_the_file(family, tmp_path):
    fields = configure(family, **SHAPE).to_dict()
    (tmp_path / "more.json").write_text(json.dumps(fields))
    assert configure(family, **SHAPE, more=tmp_path / "more.json").to_dict() == fields


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"architecture": "bort"}, "--architecture 'bort' is not known; choose bert, roberta"),
        ({"architecture": "gpt2"}, "--architecture 'gpt2' is not known"),
        ({"width": 25}, "--width 25 is no multiple of --heads 3"),
    ],
)
def test_impossible_shapes_are_refused(changes, sentence):
    given = {"architecture": "bert", **SHAPE, **changes}
    with pytest.raises(InputError, match=sentence):
        configure(given.pop("architecture"), **given)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
        ("[1]", "must hold one JSON object"),
        ('{"hidden_act": 3}', "--config .* cannot be used"),
        ('{"num_hidden_layers": "two"}', "--config .* cannot be used"),
        ('{"hidden_act": "golu"}', "--config .* cannot be used for bert: .*golu.* is not known"),
        ('{"hiden_act": "relu"}', "--config .*: bert has no field hiden_act; is hidden_act meant?"),
        ('{"qqq": 1}', "--config .*: bert has no field qqq$"),
    ],
)
def test_a_file_of_fields_that_cannot_be_used_is_named(tmp_path, content, sentence):
    path = tmp_path / "more.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=sentence):
        configure("bert", **SHAPE, more=path)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"max_position_embeddings": 19}, "gives 19 positions, but --length needs 20"),
        ({"vocab_size": 7}, "gives a vocabulary of 7, but the tokenizer has 90; leave vocab_size out"),
        ({"hidden_size": 25}, "gives a width of 25, no multiple of 3 heads"),
    ],
)
def test_a_configuration_too_small_for_its_text_is_refused_before_training(tmp_path, fields, sentence):
    (tmp_path / "more.json").write_text(json.dumps(fields))
    with pytest.raises(InputError, match=sentence):
        configure("bert", **SHAPE, tokenizer=tiny_tokenizer(), more=tmp_path / "more.json")


@pytest.mark.parametrize("family", [name for name in ENCODERS if FAMILIES[name].first_position == "padding"])
def test_positions_after_a_high_padding_index_reach_to_the_end(family):
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(9)
    model = built(configure(family, **SHAPE, tokenizer=tokenizer)).eval()
    ids = torch.randint(10, 90, (1, SHAPE["length"]), generator=torch.Generator().manual_seed(0))
    assert model(input_ids=ids).logits.isfinite().all()
