"""Every registered mapping recovers a planted rotation, treats new vectors alike, and survives a file.

Every removal of languages takes a planted language away, also from new vectors, and leaves the rest."""

import pytest
import torch

from isogloss.errors import InputError
from isogloss.mappings.mapping import RESTORES, load_mapping, save
from isogloss.mappings.methods import MAPPINGS, fit_mapping, remove_languages
from isogloss.mappings.normalise import NORMALISATIONS, REMOVALS


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def planted(n=80, d=12):
    """Vectors, and the same turned by a reflection: its determinant is -1."""
    turn = torch.linalg.qr(draw(d, d, seed=9)).Q
    turn[0] *= -torch.sign(torch.linalg.det(turn))
    x = draw(n, d, seed=1) + 0.3
    return x, x @ turn.T, turn


@pytest.mark.parametrize("method", MAPPINGS)
@pytest.mark.parametrize("normalise", NORMALISATIONS)
def test_a_planted_rotation_is_recovered_also_for_new_vectors(method, normalise):
    x, y, turn = planted()
    found = fit_mapping(x, y, method=method, normalise=normalise, ridge_strength=1e-9)
    assert torch.linalg.det(turn) < 0
    assert (found.weight - turn).abs().max() < 1e-6
    new = draw(5, 12, seed=3) + 0.3
    assert (found(new) - found.target(new @ turn.T)).abs().max() < 1e-6
    assert found.pairs == 80 and not found.underdetermined


@pytest.mark.parametrize("method", MAPPINGS)
@pytest.mark.parametrize("restore", RESTORES)
def test_how_means_are_restored(method, restore):
    x, y, turn = planted()
    x = 3 * x
    found = fit_mapping(x, y, method=method, normalise="iterative", ridge_strength=1e-9, restore=restore)
    w = found.weight
    expected = {
        "raw": x @ w.T,
        "recentred": (x - x.mean(0)) @ w.T + y.mean(0),
        "normalised": found.source(x) @ w.T,
    }[restore]
    assert torch.allclose(found(x), expected, atol=1e-10)


@pytest.mark.parametrize("method", MAPPINGS)
def test_orthogonal_if_and_only_if_it_says_so(method):
    x, y = draw(40, 6, seed=1), draw(40, 6, seed=2)
    w = fit_mapping(x, y, method=method).weight
    assert torch.allclose(w @ w.T, torch.eye(6, dtype=torch.float64), atol=1e-9) is MAPPINGS[method].keeps_distances


@pytest.mark.parametrize("method", MAPPINGS)
def test_a_file_gives_the_same_mapping_to_the_bit(method, tmp_path):
    x, y, _ = planted()
    found = fit_mapping(x, y, method=method, normalise="iterative", restore="recentred")
    again = load_mapping(save(found, tmp_path / "folder" / "w.safetensors"))
    assert torch.equal(again(x), found(x)) and torch.equal(again.target(y), found.target(y))
    assert torch.equal(again.restored("normalised")(x), found.restored("normalised")(x))
    assert (again.method, again.pairs, again.restore) == (method, 80, "recentred")


@pytest.mark.parametrize("method", MAPPINGS)
def test_arguments_are_left_as_they_were_and_precision_is_that_of_the_vectors(method):
    x, y, _ = planted()
    copies = x.clone(), y.clone()
    found = fit_mapping(x, y, method=method, normalise="iterative")
    assert torch.equal(x, copies[0]) and torch.equal(y, copies[1])
    assert found.weight.dtype == torch.float64
    assert found(x.float()).dtype == torch.float32
    assert (found(x.float()).double() - found(x)).abs().max() < 1e-5


@pytest.mark.parametrize("method", MAPPINGS)
def test_fewer_pairs_than_directions_is_said(method):
    x, y, _ = planted(n=5)
    found = fit_mapping(x, y, method=method, ridge_strength=1e-9)
    assert found.underdetermined
    assert (found(x) - y).abs().max() < 1e-6, "the pairs themselves are still mapped"


@pytest.mark.parametrize("method", MAPPINGS)
def test_widths_that_differ_are_refused_by_rotations_only(method):
    x, y = draw(30, 6, seed=1), draw(30, 4, seed=2)
    if MAPPINGS[method].keeps_distances:
        with pytest.raises(InputError, match="x has width 6 and y has width 4; a rotation"):
            fit_mapping(x, y, method=method)
    else:
        assert fit_mapping(x, y, method=method)(x).shape == (30, 4)


def in_languages(sentences, seed=4):
    """Three languages of the same sentences, each far off in a direction of its own, and what they mean."""
    meaning = torch.cat([draw(sentences, 9, seed=seed), torch.zeros(sentences, 3, dtype=torch.float64)], dim=1)
    places = torch.eye(12, dtype=torch.float64)[9:]  # the last three directions tell the language
    return {name: meaning + 20 * place for name, place in zip(("en", "nl", "ru"), places, strict=True)}, meaning


@pytest.mark.parametrize("method", ["centred", *REMOVALS])
def test_a_planted_language_is_removed_also_from_new_vectors_and_the_rest_stays(method, tmp_path):
    spaces, _ = in_languages(200)
    removals = remove_languages(spaces, method=method)
    new, meaning = in_languages(50, seed=8)
    cleaned = {name: removals[name](x) for name, x in new.items()}
    apart = max((cleaned[name] - cleaned["en"]).norm(dim=1).max() for name in cleaned)
    assert apart < (1e-9 if method in ("lsar", "leace") else 3.0) < (new["nl"] - new["en"]).norm(dim=1).min()
    for name, x in cleaned.items():
        assert (x[:, :9] - meaning[:, :9]).norm(dim=1).median() < 0.5  # the means of `centred`, a tilt of `lir`
        again = load_mapping(save(removals[name], tmp_path / f"{name}.safetensors"))
        assert torch.equal(again(new[name]), x) and torch.equal(again.target(new[name]), x)
        assert again(new[name].float()).dtype == torch.float32


@pytest.mark.parametrize("method", REMOVALS)
def test_what_is_removed_is_not_brought_back(method):
    spaces, _ = in_languages(40)
    with pytest.raises(InputError, match=f"restore 'raw' would bring back what {method} removes"):
        remove_languages(spaces, method=method)["en"].restored("raw")
    x = spaces["en"]
    assert fit_mapping(x, spaces["nl"], normalise=method)(x).shape == x.shape
