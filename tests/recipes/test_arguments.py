"""What tables call a model, and the limits of options."""

import math

import pytest

from isogloss.errors import InputError
from isogloss.recipes import recipe, training_options
from isogloss.recipes.recipe import model_name


def test_models_are_called_by_their_folder_or_run(tmp_path):
    for folder in ("mine", "runs/first/model", "runs/second/model/nl", "third/checkpoints/last-6-seed-0/best", "best"):
        (tmp_path / folder).mkdir(parents=True)
    assert model_name(tmp_path / "mine") == "mine"
    assert model_name(tmp_path / "runs/first/model") == "first"
    assert model_name(str(tmp_path / "runs/second/model/nl")) == "second/nl"
    assert model_name(tmp_path / "third/checkpoints/last-6-seed-0/best") == "third/last-6-seed-0/best"
    assert model_name(tmp_path / "best") == "best"
    assert model_name("bert-base-multilingual-cased") == "bert-base-multilingual-cased"
    assert model_name("mini") == "mini"


@pytest.mark.parametrize(
    ("kind", "name", "value", "sentence"),
    [
        (training_options.DecayName, "decay", "quadratic", "--decay takes linear or cosine or .*, not 'quadratic'"),
        (training_options.Rate, "rate", 0.0, "--rate must be above 0, not 0"),
        (training_options.Rate, "rate", math.nan, "--rate must be above 0"),
        (training_options.WarmUp, "warm_up", -1, "--warm-up must be from 0 to below 1, not -1"),
        (training_options.WeightDecay, "weight_decay", -0.1, "--weight-decay must be at least 0, not -0.1"),
        (training_options.Clip, "clip", math.inf, "--clip must be a finite number, not inf"),
        (training_options.Compiled, "compiled", "maybe", "--compiled takes auto or yes or no, not 'maybe'"),
    ],
)
def test_values_outside_the_limits_of_an_annotation_are_refused(kind, name, value, sentence):
    with pytest.raises(InputError, match=sentence):
        recipe.option_of(kind).check(name, value)
    recipe.option_of(kind).check(name, None)
