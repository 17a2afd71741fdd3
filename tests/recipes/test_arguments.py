"""What tables call a model."""

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
