"""Mappings against scipy, scikit-learn and explicit loops; normalisation, refinement, files."""

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes, sqrtm
from sklearn.linear_model import LogisticRegression, Ridge

import isogloss as ig
from isogloss.errors import InputError
from isogloss.mappings.methods import fit_mapping, parse_mappings, remove_languages
from isogloss.mappings.normalise import REMOVALS, normalisation, normalisations, streamed_normalisations
from isogloss.measures.retrieval import retrieval


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def least_squares(x, y):
    return fit_mapping(x, y, method="least-squares")


def rotation(d, seed=5):
    return torch.linalg.qr(draw(d, d, seed=seed)).Q


def test_procrustes_is_that_of_scipy():
    x, y = draw(50, 7, seed=1), draw(50, 7, seed=2)
    theirs, _ = orthogonal_procrustes(x.numpy(), y.numpy())
    assert np.allclose(ig.procrustes(x, y).weight.numpy().T, theirs, atol=1e-10)


def test_ridge_is_that_of_scikit_learn_and_least_squares_that_of_numpy():
    x, y = draw(50, 7, seed=1), draw(50, 4, seed=2)
    theirs = Ridge(alpha=2.5, fit_intercept=False).fit(x.numpy(), y.numpy()).coef_
    assert np.allclose(fit_mapping(x, y, method="ridge", ridge_strength=2.5).weight.numpy(), theirs, atol=1e-8)
    theirs = np.linalg.lstsq(x.numpy(), y.numpy(), rcond=None)[0].T
    assert np.allclose(least_squares(x, y).weight.numpy(), theirs, atol=1e-10)
    assert torch.allclose(fit_mapping(x, y, method="ridge", ridge_strength=0.0).weight, least_squares(x, y).weight)


@pytest.mark.parametrize("n", [24, 40, 80])
def test_under_noise_a_rotation_is_nearer_the_truth_than_least_squares_at_small_n(n):
    turn, x = rotation(20), draw(n, 20, seed=1)
    y = x @ turn.T + 0.4 * draw(n, 20, seed=2)
    new = draw(500, 20, seed=3)
    errors = {
        name: (fit(x, y)(new) - new @ turn.T).norm() for name, fit in (("r", ig.procrustes), ("l", least_squares))
    }
    assert errors["r"] < errors["l"]


def explicit(space, rounds=5):
    rows = [list(map(float, row)) for row in space]
    means = []
    for _ in range(rounds):
        rows = [[cell / sum(c * c for c in row) ** 0.5 for cell in row] for row in rows]
        means.append([sum(column) / len(rows) for column in zip(*rows, strict=True)])
        rows = [[cell - mean for cell, mean in zip(row, means[-1], strict=True)] for row in rows]
    return [[cell / sum(c * c for c in row) ** 0.5 for cell in row] for row in rows], means


def test_iterative_normalisation_equals_an_explicit_loop():
    space = draw(30, 5, seed=4) + 2
    shape = normalisation(space)
    rows, means = explicit(space)
    assert torch.allclose(shape(space), torch.tensor(rows, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(shape.means, torch.tensor(means, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(shape.mean, space.mean(0))


def test_iterative_normalisation_leaves_unit_rows_and_nearly_no_mean():
    space = draw(400, 16, seed=4) * torch.linspace(0.2, 3, 16) + 1.5
    shaped = normalisation(space)(space)
    assert torch.allclose(shaped.norm(dim=1), torch.ones(400, dtype=torch.float64), atol=1e-12)
    assert shaped.mean(0).norm() < 1e-3 * normalisation(space, "length")(space).mean(0).norm()


def test_new_vectors_are_treated_with_the_means_of_the_space():
    space = draw(60, 5, seed=4) + 1
    shape = normalisation(space)
    assert torch.allclose(shape(space[7:9]), shape(space)[7:9], atol=1e-12)
    assert not torch.allclose(normalisation(space[7:9])(space[7:9]), shape(space)[7:9], atol=1e-2)


def test_the_simple_normalisations():
    space = draw(60, 5, seed=4) + 1
    assert torch.equal(normalisation(space, "none")(space), space)
    assert torch.allclose(normalisation(space, "centred")(space), space - space.mean(0))
    assert torch.allclose(normalisation(space, "length")(space), space / space.norm(dim=1, keepdim=True))
    zero = torch.zeros(1, 5, dtype=torch.float64)
    assert torch.equal(normalisation(space, "length")(zero), zero), "a vector of zeros has no direction"


@pytest.mark.parametrize("kind", ["none", "centred", "length", "iterative"])
def test_spaces_that_stream_by_have_the_same_means(kind):
    spaces = torch.stack([draw(90, 5, seed=4) + 2, 3 * draw(90, 5, seed=5) - 1])
    calls = []

    def read():
        calls.append(1)
        yield from torch.split(spaces, 17, dim=1)

    found = streamed_normalisations(read, kind)
    assert len(calls) == {"iterative": 5}.get(kind, 1)
    for one, space in zip(found, spaces, strict=True):
        whole = normalisation(space, kind)
        assert (one.kind, one.lengths) == (whole.kind, whole.lengths) and one.means.shape == whole.means.shape
        assert torch.allclose(one.means, whole.means, atol=1e-12) and torch.allclose(one.mean, whole.mean, atol=1e-12)
        assert torch.allclose(one(space), whole(space), atol=1e-12)
    with pytest.raises(InputError, match="no vectors to take the means of"):
        streamed_normalisations(lambda: [], kind)


def test_normalisations_known_already_are_taken():
    x, y = draw(40, 5, seed=1) + 1, draw(40, 5, seed=2) - 1
    given = ig.procrustes(x[:20], y[:20], normalise="iterative", spaces=(x, y))
    found = fit_mapping(x[:20], y[:20], normalisations=(normalisation(x), normalisation(y)))
    assert torch.equal(found.weight, given.weight) and torch.equal(found.target.means, given.target.means)


def test_means_are_those_of_the_whole_spaces():
    x, y = draw(40, 5, seed=1) + 1, draw(40, 5, seed=2) - 1
    found = ig.procrustes(x[:20], y[:20], normalise="iterative", spaces=(x, y))
    assert torch.equal(found.source.means, normalisation(x).means)
    assert torch.equal(found.target.means, normalisation(y).means)
    w, _ = orthogonal_procrustes(found.source(x[:20]).numpy(), found.target(y[:20]).numpy())
    assert np.allclose(found.weight.numpy().T, w, atol=1e-10)


def test_refinement_finds_the_rest_from_few_pairs():
    turn, x = rotation(16), draw(300, 16, seed=1)
    y = x @ turn.T + 0.15 * draw(300, 16, seed=2)
    few = fit_mapping(x[:20], y[:20], spaces=(x, y))
    more = fit_mapping(x[:20], y[:20], spaces=(x, y), refine=3)
    assert (more.weight - turn).norm() < 0.5 * (few.weight - turn).norm()
    assert more.pairs > 250 and few.pairs == 20
    assert retrieval(more(x), y, ks=(1,))["p@1"] > 0.95


def test_refinement_is_the_loop_it_says():
    turn, x = rotation(6), draw(60, 6, seed=1)
    y = x @ turn.T + 0.3 * draw(60, 6, seed=2)
    w, _ = orthogonal_procrustes(x[:10].numpy(), y[:10].numpy())
    for _ in range(2):
        a, b = x.numpy() @ w, y.numpy()
        cosine = (a / np.linalg.norm(a, axis=1)[:, None]) @ (b / np.linalg.norm(b, axis=1)[:, None]).T
        near_a, near_b = np.sort(cosine, axis=1)[:, -10:].mean(1), np.sort(cosine, axis=0)[-10:].mean(0)
        csls = 2 * cosine - near_a[:, None] - near_b[None]
        pairs = [(i, int(csls[i].argmax())) for i in range(60) if csls[:, csls[i].argmax()].argmax() == i]
        w, _ = orthogonal_procrustes(x.numpy()[[i for i, _ in pairs]], y.numpy()[[j for _, j in pairs]])
    found = fit_mapping(x[:10], y[:10], spaces=(x, y), refine=2)
    assert np.allclose(found.weight.numpy().T, w, atol=1e-10) and found.pairs == len(pairs)


def test_no_map_only_normalises():
    x, y = draw(30, 5, seed=1) + 1, draw(30, 5, seed=2)
    (centred,) = parse_mappings("centred")
    none = centred.fit(x, y, spaces=(x, y))
    assert torch.allclose(none(x), x - x.mean(0)) and not none.underdetermined


@pytest.mark.parametrize("normalise", ["none", "iterative", "leace"])
def test_whole_numbers_are_mapped_as_float32(normalise):
    x, y = (5 * draw(30, 6, seed=1)).round().long(), (5 * draw(30, 6, seed=2)).round().long()
    fitted = ig.procrustes(x, y, normalise=normalise)
    for mapping in (fitted, *map(fitted.restored, ("raw", "recentred") if normalise != "leace" else ())):
        assert torch.equal(mapping(x), mapping(x.float())) and mapping(x).abs().max() > 0
    assert torch.equal(fitted.source(x), fitted.source(x.float()))


def test_a_mapping_stands_in_a_chain(tiny):
    stack = ig.load(tiny("bert"))
    corpus = ig.Corpus("en", ["the cat sleeps", "we drink water and eat bread"])
    x = draw(100, stack.width) + 1
    same = ig.procrustes(x, x, normalise="iterative", restore="recentred")
    joined = ig.chain(stack[:1], same, stack[1:])
    assert torch.allclose(ig.vectors(joined, corpus)[3], ig.vectors(stack, corpus)[3], atol=1e-4)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: fit_mapping(x, x, method="affine"), "mapping 'affine' is not known; choose procrustes"),
        (lambda x: ig.procrustes(x, x, normalise="z"), "normalisation 'z' is not known; choose none"),
        (lambda x: ig.procrustes(x, x, restore="z"), "restore 'z' is not known; choose normalised"),
        (lambda x: ig.procrustes(x, x, refine=-1), "refine takes a number of rounds from 0 on, not -1"),
        (lambda x: ig.procrustes(x, x[:3]), "x has 20 items and y has 3"),
        (lambda x: ig.procrustes(x * torch.nan, x), "not finite"),
        (lambda x: ig.procrustes(x, x)(x[:, :2]), "width 2 and the mapping takes 4"),
        (lambda x: normalisation(x)(x[:, :2]), "width 2 and the space has width 4"),
    ],
)
def test_mistakes_are_one_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call(draw(20, 4))


def test_what_is_no_mapping_or_no_vector_is_one_sentence(tmp_path):
    mapping = ig.procrustes(torch.eye(4), torch.eye(4))
    with pytest.raises(InputError, match=r"a mapping takes vectors, a tensor \(n, 4\), not 'a'"):
        mapping("a")
    with pytest.raises(InputError, match="ig.save writes a mapping, such as that of ig.procrustes, not a Tensor"):
        ig.save(torch.eye(4), tmp_path / "w.safetensors")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file cannot be made: .*; choose another folder"):
        ig.save(mapping, tmp_path / "file" / "w.safetensors")


def test_a_file_that_is_no_mapping_is_refused(tmp_path):
    path = ig.save(ig.procrustes(draw(20, 4), draw(20, 4, seed=1)), tmp_path / "w.safetensors")
    content = path.read_bytes()
    with pytest.raises(InputError, match="there is no file"):
        ig.load_mapping(tmp_path / "other.safetensors")
    for cut in (len(content) // 2, 4, 0):
        path.write_bytes(content[:cut])
        with pytest.raises(InputError, match="damaged, cut off or no safetensors file"):
            ig.load_mapping(path)
    from safetensors.torch import save_file

    save_file({"weight": torch.eye(3)}, path)
    with pytest.raises(InputError, match="is a folder; give the name of a file, as in .*mapping.safetensors"):
        ig.save(ig.procrustes(draw(20, 4), draw(20, 4, seed=1)), tmp_path)
    with pytest.raises(InputError, match="no mapping written by ig.save"):
        ig.load_mapping(path)
    save_file({"weight": torch.eye(3)}, path, metadata={"format": "isogloss mapping 1"})
    with pytest.raises(InputError, match="lacks a part"):
        ig.load_mapping(path)
    assert [one.name for one in tmp_path.iterdir()] == ["w.safetensors"], "nothing is left beside it"


# Languages removed


def of_languages(*sizes, d=6):
    """Vectors of several languages, each with a place, and all with a stretched shape."""
    shape = draw(d, d, seed=7)
    return [draw(n, d, seed=n) @ shape + 2 * draw(1, d, seed=1000 + n) for n in sizes]


def test_leace_is_the_printed_formula():
    spaces = of_languages(120, 80, 50)
    whole = torch.cat(spaces)
    labels = torch.cat([torch.eye(3, dtype=torch.float64)[[number] * len(x)] for number, x in enumerate(spaces)])
    mean = whole.mean(dim=0)
    covariance = ((whole - mean).T @ (whole - mean) / len(whole)).numpy()
    cross = ((whole - mean).T @ (labels - labels.mean(dim=0)) / len(whole)).numpy()
    root = np.real(sqrtm(covariance))
    whitening = np.linalg.inv(root)
    tells = whitening @ cross  # (d, languages), of rank 2
    projection = tells @ np.linalg.pinv(tells, rcond=1e-8)
    expected = whole.numpy() - (whole - mean).numpy() @ (root @ projection @ whitening).T
    mine = torch.cat([own(x) for own, x in zip(normalisations(spaces, "leace"), spaces, strict=True)])
    assert np.allclose(mine.numpy(), expected, atol=1e-9)


def test_after_leace_no_linear_classifier_beats_the_majority():
    spaces = of_languages(120, 80, 50)
    labels = np.repeat([0, 1, 2], [120, 80, 50])
    cleaned = torch.cat([own(x) for own, x in zip(normalisations(spaces, "leace"), spaces, strict=True)])
    one_hot = np.eye(3)[labels]
    covariance = (cleaned - cleaned.mean(0)).numpy().T @ (one_hot - one_hot.mean(0)) / len(labels)
    assert np.abs(covariance).max() < 1e-12
    before, after = (
        LogisticRegression(C=1e6, max_iter=5000).fit(x.numpy(), labels).score(x.numpy(), labels)
        for x in (torch.cat(spaces), cleaned)
    )
    assert before > 0.9 and after == pytest.approx(120 / 250)


def test_lsar_removes_the_plane_of_the_means_and_lir_the_first_singular_vectors():
    spaces = of_languages(120, 80, 50)
    means = np.stack([x.mean(0).numpy() for x in spaces])
    plane = np.linalg.svd(means - means.mean(0))[2][:2]
    lsar = normalisations(spaces, "lsar")
    for own, x in zip(lsar, spaces, strict=True):
        assert np.allclose(own(x).numpy(), x.numpy() - x.numpy() @ plane.T @ plane, atol=1e-10)
    first = normalisations(spaces, "lsar", rank=1)[0]
    assert np.allclose(first(spaces[0]).numpy(), (spaces[0].numpy() - spaces[0].numpy() @ plane[:1].T @ plane[:1]))
    for own, x in zip(normalisations(spaces, "lir", rank=2), spaces, strict=True):
        u, sizes, vh = np.linalg.svd(x.numpy(), full_matrices=False)
        assert np.allclose(own(x).numpy(), u[:, 2:] * sizes[2:] @ vh[2:], atol=1e-10)


def test_languages_with_one_mean_are_left_as_they_are_and_few_vectors_do_no_harm():
    x = draw(30, 6, seed=1)
    for kind in ("lsar", "leace"):
        assert torch.equal(normalisations([x, x], kind)[0](x), x)
        assert torch.equal(normalisations([x[:1].expand(4, 6)] * 2, kind)[0](x), x), "a space that does not vary"
    few = [draw(5, 40, seed=2), draw(4, 40, seed=3)]  # fewer vectors than directions
    cleaned = [own(side) for own, side in zip(normalisations(few, "leace"), few, strict=True)]
    assert torch.allclose(cleaned[0].mean(0), cleaned[1].mean(0), atol=1e-9) and cleaned[0].isfinite().all()


def test_mistakes_of_removals_are_said():
    x = draw(30, 6, seed=1)
    for spaces, options, words in (
        ({"en": x}, {}, "leace removes what separates languages, so it needs two languages or more"),
        ({"en": x, "nl": x[:, :4]}, {}, "x has width 6 and y has width 4; leace needs languages in the space of one"),
        ({"en": x, "nl": x}, {"method": "svd"}, "removal 'svd' is not known; choose centred, lir, lsar, leace"),
        ({"en": x, "nl": x}, {"method": "lir", "rank": 0}, "rank is how many directions are removed, at least 1"),
    ):
        with pytest.raises(InputError, match=words):
            remove_languages(spaces, **options)
    assert [spec.saved for spec in parse_mappings(["raw", "centred", *REMOVALS, "procrustes+leace"])] == [
        False, False, True, True, True, True,
    ]  # fmt: skip
