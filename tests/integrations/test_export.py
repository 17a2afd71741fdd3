"""What is exported gives isogloss' vectors, read by the other package alone, for every family and at every cut."""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import TranslationEvaluator
from transformers import AutoModel, AutoTokenizer

import isogloss as ig
from isogloss import cli
from isogloss.errors import InputError
from isogloss.integrations import export as exporting
from isogloss.integrations.export import Encoder, inherited
from isogloss.mappings.mapping import RESTORES
from isogloss.mappings.methods import fit_mapping, remove_languages
from isogloss.mappings.normalise import NORMALISATIONS, REMOVALS
from isogloss.measures.retrieval import retrieve
from tiny_models import DEPTH, ENCODERS, TEXT

# Marks that the text itself holds, a sentence of one word, and one that is too long for the model.
SENTENCES = [*TEXT, "the [SEP] cat [CLS] sleeps", " ".join(TEXT * 3)]
CORPUS = ig.Corpus("en", SENTENCES)


def apply(steps, x):
    """The steps on x (n, d), in the precision of x."""
    return torch.nn.Sequential(*steps).to(x.dtype)(x)


def reference(folder, layer, *, first=False):
    """Vectors from transformers alone, one sentence at a time, nothing padded: (sentences, width)."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    special = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id}
    norm = getattr(model, "final_norm", None)
    raw = []
    if norm is not None:
        norm.register_forward_pre_hook(lambda _, given: raw.append(given[0]))
    found = []
    for sentence in SENTENCES:
        encoded = tokenizer(sentence, truncation=True, max_length=64, return_tensors="pt")
        ids = {name: encoded[name] for name in ("input_ids", "attention_mask")}
        with torch.no_grad():
            states = model(**ids, output_hidden_states=True).hidden_states[layer][0]
        if norm is not None and layer == DEPTH:
            states = raw[-1][0]
        content = [
            state for token, state in zip(ids["input_ids"][0].tolist(), states, strict=True) if token not in special
        ]
        found.append(states[0] if first else sum(content) / len(content))
    return torch.stack(found)


def encode(folder):
    return torch.from_numpy(SentenceTransformer(str(folder), device="cpu").encode(SENTENCES, batch_size=4))


def close(found, expected):
    torch.testing.assert_close(found, expected.to(found.dtype), atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ENCODERS)
def test_sentence_transformers_gives_the_vectors_of_every_family_at_every_cut(tiny, family, tmp_path):
    for layer in range(DEPTH + 1):
        done = ig.export(tiny(family), tmp_path / str(layer), layer=layer)
        expected = reference(tiny(family), layer)
        close(encode(tmp_path / str(layer)), expected)
        close(ig.vectors(ig.load(tiny(family)), CORPUS, layers=[layer])[0], expected)
        assert done.difference is not None and done.difference < 1e-5


@pytest.mark.parametrize("family", ENCODERS)
def test_a_plain_folder_is_the_model_cut_there(tiny, family, tmp_path):
    whole = ig.load(tiny(family))
    for layer in range(family == "modernbert", DEPTH + 1):  # transformers makes no ModernBERT without blocks
        folder = tmp_path / str(layer)
        ig.export(tiny(family), folder, to="transformers", layer=layer)
        cut = ig.load(folder)
        assert list(cut.cuts) == list(range(layer + 1))
        assert torch.equal(ig.vectors(cut, CORPUS), ig.vectors(whole, CORPUS, layers=range(layer + 1)))
        encoded = whole.tokenizer(TEXT[0], return_tensors="pt")
        ids = {name: encoded[name] for name in ("input_ids", "attention_mask")}
        plain, norm = AutoModel.from_pretrained(folder).eval(), getattr(whole.model, "final_norm", None)
        with torch.no_grad():
            found = plain(**ids).last_hidden_state
            states = whole.model(**ids, output_hidden_states=True).hidden_states[layer]
            expected = states if norm is None or layer == DEPTH else norm(states)
        close(found, expected)
        assert plain.dtype == torch.float32


# A graph takes seconds to make. BERT, RoBERTa, CamemBERT and ELECTRA are built as XLM-R is; DistilBERT is below.
@pytest.mark.parametrize("family", ["xlm-roberta", "mpnet", "modernbert"])
def test_onnxruntime_gives_the_vectors(tiny, family, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    layer = 2 if family == "modernbert" else 1  # its second block has local attention
    ig.export(tiny(family), tmp_path / "graph", to="onnx", layer=layer)
    session = onnxruntime.InferenceSession(tmp_path / "graph" / "model.onnx")
    assert [one.name for one in session.get_inputs()] == ["input_ids", "attention_mask"]
    assert [one.shape for one in session.get_inputs()] == [["sentences", "tokens"]] * 2
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "graph")
    expected = reference(tiny(family), layer)
    for rows in ([0], [6], list(range(len(SENTENCES)))):  # other numbers of sentences and tokens than it was made with
        encoded = tokenizer([SENTENCES[row] for row in rows], padding=True, truncation=True, return_tensors="np")
        fed = {name: encoded[name].astype(np.int64) for name in ("input_ids", "attention_mask")}
        close(torch.from_numpy(session.run(None, fed)[0]), expected[rows])


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_the_first_token(tiny, family, tmp_path):
    ig.export(tiny(family), tmp_path / "first", layer=2, pooling="first")
    expected = reference(tiny(family), 2, first=True)
    close(encode(tmp_path / "first"), expected)
    close(ig.vectors(ig.load(tiny(family)), CORPUS, layers=[2], unit="first")[0], expected)
    kinds = [one["path"] for one in json.loads((tmp_path / "first" / "modules.json").read_text())]
    assert kinds == ["", "1_Pooling"]


def fitted(normalise, restore, *, width=24):
    """A mapping of a tiny model's space onto a narrower one."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(80, 32, generator=draw, dtype=torch.float64) + 2
    return fit_mapping(x, x[:, :width] * 1.5 - 1, method="least-squares", normalise=normalise).restored(restore)


def by_hand(mapping, x, side):
    """What a mapping does, written out once more in numpy."""
    x, weight = x.double().numpy(), mapping.weight.numpy()
    space = mapping.source if side == "source" else mapping.target
    if mapping.restore == "normalised":
        for mean in space.means.numpy():
            x = (x / np.linalg.norm(x, axis=1, keepdims=True) if space.lengths else x) - mean
        x = x / np.linalg.norm(x, axis=1, keepdims=True) if space.lengths else x
    if side == "target":
        return torch.from_numpy(x)
    if mapping.restore == "recentred":
        return torch.from_numpy((x - mapping.source.mean.numpy()) @ weight.T + mapping.target.mean.numpy())
    return torch.from_numpy(x @ weight.T)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@pytest.mark.parametrize("restore", RESTORES)
def test_a_mapping_goes_along(tiny, tmp_path, normalise, restore):
    mapping = fitted(normalise, restore)
    ig.save(mapping, tmp_path / "w.safetensors")
    ig.export(tiny("bert"), tmp_path / "mapped", layer=2, mapping=tmp_path / "w.safetensors")
    close(encode(tmp_path / "mapped"), by_hand(mapping, reference(tiny("bert"), 2), "source"))


@pytest.mark.parametrize("restore", RESTORES)
def test_the_other_side_of_a_mapping_is_where_it_can_be_compared(tiny, tmp_path, restore):
    mapping = fitted("iterative", restore, width=32)
    ig.export(tiny("bert"), tmp_path / "target", layer=1, mapping=mapping, side="target")
    close(encode(tmp_path / "target"), by_hand(mapping, reference(tiny("bert"), 1), "target"))


@pytest.mark.parametrize("method", REMOVALS)
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_removal_of_languages_goes_along(tiny, tmp_path, method, side):
    draw = torch.Generator().manual_seed(1)
    spaces = {language: torch.randn(60, 32, generator=draw) + place for language, place in (("en", 0.0), ("nl", 0.5))}
    removal = remove_languages(spaces, method=method)["nl"]
    ig.save(removal, tmp_path / "w.safetensors")
    ig.export(tiny("bert"), tmp_path / "without", layer=2, mapping=tmp_path / "w.safetensors", side=side)
    close(encode(tmp_path / "without"), removal(reference(tiny("bert"), 2).double()))


def test_steps_are_joined_and_equal_the_mapping():
    x = torch.randn(5, 32, dtype=torch.float64)
    for normalise, steps in (("none", 1), ("centred", 1), ("length", 2), ("iterative", 12)):
        encoder = Encoder(None, 0, mapping=fitted(normalise, "normalised"), mean=torch.full((24,), 0.3))
        assert len(encoder.steps) == steps
        torch.testing.assert_close(apply(encoder.steps, x), encoder.mapping(x) - torch.full((24,), 0.3).double())


def test_centring_subtracts_the_mean_of_the_languages_means(tiny, tmp_path):
    (tmp_path / "en.txt").write_text("\n".join(TEXT[:5]), encoding="utf-8")
    (tmp_path / "nl.txt").write_text(TEXT[5], encoding="utf-8")
    texts = [f"en={tmp_path / 'en.txt'}", f"nl={tmp_path / 'nl.txt'}"]
    done = ig.export(tiny("modernbert"), tmp_path / "centred", layer=1, centre=texts)
    plain = reference(tiny("modernbert"), 1)
    close(encode(tmp_path / "centred"), plain - (plain[:5].mean(0) + plain[5]) / 2)
    assert done.facts["centred on"] == "en (5 sentences), nl (1 sentences)"
    mapping = fitted("centred", "normalised")
    ig.export(tiny("bert"), tmp_path / "both", layer=1, mapping=mapping, centre=CORPUS)
    mapped = by_hand(mapping, reference(tiny("bert"), 1), "source")
    close(encode(tmp_path / "both"), mapped - mapped.mean(0))


def test_mapping_and_centring_go_into_a_graph(tiny, tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    mapping = fitted("iterative", "normalised")
    ig.export(
        tiny("distilbert"), tmp_path / "graph", to="onnx", layer=1, pooling="first", mapping=mapping, centre=CORPUS
    )
    mapped = by_hand(mapping, reference(tiny("distilbert"), 1, first=True), "source")
    close(exporting.encode_with_onnxruntime(tmp_path / "graph", CORPUS), mapped - mapped.mean(0))


def test_the_packages_own_evaluator_finds_the_same_translations(tmp_path):
    """P@1 of mini on the embedded sentences, by sentence-transformers' TranslationEvaluator and by isogloss."""
    en, nl = (corpus.take(range(64)) for corpus in ig.embedded(("en", "nl")))
    ig.export("mini", tmp_path / "mini", layer=11)
    evaluator = TranslationEvaluator(list(en.sentences), list(nl.sentences), show_progress_bar=False, write_csv=False)
    scores = evaluator(SentenceTransformer(str(tmp_path / "mini"), device="cpu"))
    stack = ig.load("mini", device="cpu")
    there, back = retrieve(*(ig.vectors(stack, corpus, layers=[11])[0] for corpus in (en, nl)))
    assert scores["src2trg_accuracy"] == pytest.approx(there.p[1].value)
    assert scores["trg2src_accuracy"] == pytest.approx(back.p[1].value)
    assert 0.2 < scores["mean_accuracy"] < 1


def test_a_run_stands_for_its_model_and_the_layer_it_aligned(tiny, tmp_path):
    run = tmp_path / "runs" / "aligned"
    shutil.copytree(tiny("bert"), run / "model")
    facts = {"command": "align", "arguments": {"model": "mini", "layer": 2}}
    (run / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    for number, given in enumerate((run, run / "model")):
        done = ig.export(given, tmp_path / f"search-{number}")
        close(encode(done.folder), reference(tiny("bert"), 2))
        assert done.facts["licence"] == "cc-by-sa-4.0", "of the model it was trained from, as its own card has none"
    assert ig.export(run, tmp_path / "top", layer=3).facts["layer"] == "3 of 3"
    (run / "run.json").write_text(json.dumps({"arguments": {"model": str(run / "model")}}), encoding="utf-8")
    done = ig.export(run, tmp_path / "last")
    assert (done.facts["layer"], done.facts["licence"]) == ("3 of 3", "the source's card names none")


def test_the_card_says_what_it_is(tiny, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(tiny("bert"), source)
    head = "---\nlicense: other\nlicense_name: house\nlanguage:\n- nl\n- 'no'\ntags:\n- x\n---\n\nlicense: mit\n"
    (source / "README.md").write_text(head, encoding="utf-8")
    mapping = fitted("centred", "normalised")
    done = ig.export(source, tmp_path / "there", layer=2, mapping=mapping)
    card = (tmp_path / "there" / "README.md").read_text(encoding="utf-8")
    metadata = yaml.safe_load(card.split("---\n")[1])
    assert metadata == {
        "license": "other",
        "license_name": "house",
        "language": ["nl", "no"],
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["isogloss"],
    }
    assert "| licence | other |" in card and "| layer | 2 of 3 |" in card
    assert ig.load(source).fingerprint in card
    assert "least-squares, centred, normalised, fitted on 80 pairs" in card.replace("_", "-")
    assert "read by sentence-transformers" in card and f"by {done.difference:.1g} at most" in card
    ig.export(tiny("modernbert"), tmp_path / "cut", to="transformers", layer=2)
    assert "is after that norm" in (tmp_path / "cut" / "README.md").read_text(encoding="utf-8")
    assert inherited([tmp_path / "nothing"]) == {}
    for damaged in ("---\nlicense: [\n---\n", "---\n- a\n---\n", "no metadata"):
        (source / "README.md").write_text(damaged, encoding="utf-8")
        assert inherited([source / "README.md"]) == {}


def test_what_cannot_be_checked_says_so(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    done = ig.export(tiny("bert"), tmp_path / "unchecked")
    assert done.difference is None
    assert "Not checked: sentence-transformers is not installed" in (tmp_path / "unchecked" / "README.md").read_text()
    close(encode(tmp_path / "unchecked"), reference(tiny("bert"), DEPTH))


def test_vectors_that_differ_are_refused_and_nothing_is_left(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "marks", lambda tokenizer: [])  # as if special tokens were content
    with pytest.raises(InputError, match="gives vectors that differ from isogloss' by 0"):
        ig.export(tiny("bert"), tmp_path / "wrong")
    assert list(tmp_path.iterdir()) == []


def test_a_package_that_is_too_old_is_named(tiny, tmp_path, monkeypatch):
    def old(*_):
        raise TypeError("Transformer.__init__() got an unexpected keyword argument")

    kind = exporting.FORMATS["sentence-transformers"]
    monkeypatch.setitem(exporting.FORMATS, "sentence-transformers", replace(kind, read=old))
    with pytest.raises(
        InputError, match=r"sentence-transformers \d.* cannot read what --to sentence-transformers writes"
    ):
        ig.export(tiny("bert"), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_leaves_nothing(tiny, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        ig.export(tiny("bert"), tmp_path / "half", mapping=fitted("none", "raw"))
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_stays(tiny, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    with pytest.raises(InputError, match="mine is already there; choose another folder"):
        ig.export(tiny("bert"), tmp_path / "mine")

    def made(folder, encoder):
        (tmp_path / "late").mkdir()
        exporting.write_sentence_transformer(folder, encoder)

    kind = exporting.FORMATS["sentence-transformers"]
    monkeypatch.setitem(exporting.FORMATS, "sentence-transformers", replace(kind, write=made))
    with pytest.raises(InputError, match="late was made by someone else meanwhile"):
        ig.export(tiny("bert"), tmp_path / "late")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["late", "mine"]
    assert (tmp_path / "mine" / "notes").read_text() == "mine"


@pytest.mark.parametrize(
    ("family", "options", "sentence"),
    [
        ("bert", {"layer": 4}, "has layers 0 to 3; --layer asks for 4"),
        ("bert", {"layer": -1}, "has layers 0 to 3; --layer asks for -1"),
        ("modernbert", {"layer": 0, "to": "transformers"}, "transformers makes no modernbert of 0 blocks"),
        ("bert", {"to": "gguf"}, "--to takes sentence-transformers or transformers or onnx, not 'gguf'"),
        ("bert", {"pooling": "max"}, "--pooling takes mean or first, not 'max'"),
        ("bert", {"side": "target"}, "--side target says which space of a --mapping is meant"),
        ("bert", {"mapping": "nowhere.safetensors"}, "there is no file nowhere.safetensors"),
        ("bert", {"mapping": fitted("none", "raw"), "side": "target"}, "its target space is 24 wide and .* is 32 wide"),
        ("bert", {"centre": ["en=nowhere.txt"]}, "--centre en: there is no file nowhere.txt"),
        ("bert", {"centre": ["en.txt"]}, "--centre takes LANG=FILE"),
        ("bert", {"to": "transformers", "pooling": "first"}, "--to transformers writes the states of tokens"),
        ("bert", {"to": "transformers", "centre": CORPUS}, "--to transformers writes the states of tokens"),
        ("gpt2", {}, "is of the kind decoder; only encoders can be cut and exported"),
        ("t5", {}, "is of the kind encoder-decoder; only encoders can be cut and exported"),
    ],
)
def test_bad_input_is_one_sentence(tiny, tmp_path, family, options, sentence):
    with pytest.raises(InputError, match=sentence):
        ig.export(tiny(family), tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_command(tiny, tmp_path, monkeypatch, capsys):
    def command(*words):
        monkeypatch.setattr("sys.argv", ["isogloss", "export", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code, *capsys.readouterr()

    (tmp_path / "en.txt").write_text("\n".join(TEXT), encoding="utf-8")
    ig.save(fitted("centred", "recentred"), tmp_path / "w.safetensors")
    out = tmp_path / "out"
    options = ("--layer", "2", "--pooling", "first", "--mapping", str(tmp_path / "w.safetensors"), "--quiet")
    code, told, _ = command(tiny("bert"), str(out), *options, "--centre", f"en={tmp_path / 'en.txt'}")
    assert code == 0
    assert "vector: first token of a sentence" in told and "checked: its vectors differ" in told and f"{out}" in told
    mapped = by_hand(fitted("centred", "recentred"), reference(tiny("bert"), 2, first=True), "source")
    close(encode(out), mapped - mapped[: len(TEXT)].mean(0))
    capsys.readouterr()  # what transformers said while the test itself loaded models
    quiet = (tiny("bert"), str(out), "--quiet")
    code, _, told = command(*quiet)
    assert (code, told) == (2, f"isogloss: {out} is already there; choose another folder, or remove it\n")

    def full(*_):
        raise OSError(28, "No space left on device", "there")

    def stopped(*_):
        raise KeyboardInterrupt

    for writer, number, sentence in (
        (full, 1, "could not read or write there: No space left on device; nothing was left behind"),
        (stopped, 130, "interrupted; nothing was left behind"),
    ):
        kind = exporting.FORMATS["transformers"]
        monkeypatch.setitem(exporting.FORMATS, "transformers", replace(kind, write=writer))
        code, _, told = command(tiny("bert"), str(tmp_path / "new"), "--to", "transformers", "--quiet")
        assert (code, told) == (number, f"isogloss: {sentence}\n")
        assert not list(tmp_path.glob("*new*")) and not list(tmp_path.glob(".new*"))


def test_onnx_without_its_packages(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("isogloss.integrations.export.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"--to onnx needs onnx and onnxscript; install isogloss\[onnx\]"):
        ig.export(tiny("bert"), tmp_path / "out", to="onnx")


def test_a_vocabulary_with_twins_in_lower_case(tiny, tmp_path):
    """WordWeights would give `<S>` the weight of `<s>`; here tokens are known by their numbers."""
    ig.export(tiny("bert"), tmp_path / "there", layer=1)
    config = json.loads((tmp_path / "there" / "1_WordWeights" / "config.json").read_text())
    tokenizer = ig.load(tiny("bert")).tokenizer
    special = {str(number) for number in (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)}
    assert set(config["word_weights"]) == special and set(config["word_weights"].values()) == {0.0}
    weights = SentenceTransformer(str(tmp_path / "there"), device="cpu")[1].emb_layer.weight.flatten().tolist()
    assert math.isclose(sum(weights), len(weights) - len(special))
