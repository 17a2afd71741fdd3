"""Each paper at paper scale from end to end: its own languages, data sets and options, with a tiny mBERT.

The model has mBERT's classes (`BertForMaskedLM`, `BertTokenizerFast`, dropout, 512 positions), and the data folder the
names that the scale asks for. A file of settings with `base = "paper"` makes sizes smaller, and languages fewer where
they are many of a kind.
"""

import shutil

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

import isogloss as ig
from isogloss.papers.paper import INVENTED, find
from isogloss.papers.results import Results
from isogloss.runs import read_facts
from tiny_models import MARKS

XNLI = ("ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
LANGUAGES = (*XNLI, "id", "pt", "fi", "it", "sv", "cs", "pl", "ko", "ja")  # besides English
TREEBANKS = {"en": ("ewt", "gum"), "ar": ("padt",)}  # of others: gsd
SETTINGS = {
    "hussain2020": """
        others = ["ar", "en", "th"]
        sentences = 30
        watched = 4
        every = 9
        distance = 9
        words = 12
        attention = true
        """,
    "jexus2020": "count = 9\nepochs = 1\nmap = {sample = 12, words = 20, points = 8}\n",
    "muller2021": """
        trained_on = {ar = "padt"}
        named_in = ["ru"]
        parallel = ["en", "ar", "ru", "th"]
        examples = 4
        tested = 8
        compared = 16
        epochs = 1
        """,
    "pan2021": """
        aligned = ["de", "fr", "zh"]
        amounts = {"12.5%" = 0.125}
        align = {batch = 4, queue = 8, steps = 2, rate = 5e-5, warm_up = 0.5, length = 64}
        nli = {epochs = 1, batch = 32, rate = "5e-5"}
        qa = {epochs = 1, batch = 32, rate = "3e-5", weight_decay = 1e-4}
        examples = 9
        questions = 8
        chosen = 2
        compared = 12
        evaluated = 8
        """,
    "wu2020": """
        width = 24
        steps = 2
        batch = 2
        vocabulary = 300
        compared = 16
        examples = 8
        tested = 8
        inferred = 8
        targets = ["zh"]
        tuned_targets = ["zh"]
        variants = ["Default", "Wiki-CC", "Sep Emb"]
        stitching = {layers = "0,8", epochs = 1, batch = 8, rate = 5e-5, word_pairs = 100, fresh_layers = 1}
        lookup = {vocabulary = 100, min_count = 1}
        tuning = {epochs = 1, batch = 8, rate = "2e-5"}
        """,
}
DEPTHS = {"hussain2020": 12, "muller2021": 12}  # whose plans name the layers of mBERT
UNMEASURED = {  # claims that take more layers, languages or variants than a rehearsal has
    "jexus2020": {"goes with alignment"},
    "muller2021": {"gap and similarity"},
    "pan2021": {"search"},
    "wu2020": {"distance", "middle", "below bilingual", "mapped bilingual", "layers and vocabulary"},
}


def stand_in(folder, depth, seed=0):
    """A random BERT with the classes of mBERT, 16 wide, that reads invented words letter by letter."""
    letters = [chr(ord("a") + number) for number in range(26)]
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join([*MARKS, ".", *letters, *(f"##{letter}" for letter in letters)]) + "\n")
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False, model_max_length=512)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=depth, num_attention_heads=2, intermediate_size=32
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The invented data sets under the names of real ones: the first language is English, the second all others."""
    folder = tmp_path_factory.mktemp("data")
    for path in sorted(path for path in INVENTED.rglob("*.*") if "qac" not in path.name):
        for code in LANGUAGES if "qab" in path.name else ("en",):
            for bank in TREEBANKS.get(code, ("gsd",)) if "_home" in path.name else ("",):
                name = path.name.replace("qaa", "en").replace("qab", code).replace("_home", f"_{bank}")
                copy = folder / path.parent.name / name.removeprefix("invented.")
                copy.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, copy)
    rows = [line.split("\t") for line in (INVENTED / "xnli/xnli.15way.tsv").read_text().splitlines()[1:]]
    table = [["en", *XNLI], *([first, *[second] * len(XNLI)] for first, second, _ in rows)]
    (folder / "xnli/xnli.15way.tsv").write_text("".join("\t".join(cells) + "\n" for cells in table))
    return folder


@pytest.mark.parametrize("name", SETTINGS)
def test_a_rehearsal_at_paper_scale_runs_from_start_to_end(name, data, tmp_path):
    (tmp_path / "small.toml").write_text(f'base = "paper"\n{SETTINGS[name]}')
    given = {"scale": str(tmp_path / "small.toml"), "data": str(data), "seeds": 1, "device": "cpu"}
    if name != "wu2020":  # which pretrains every model that it reads
        given["model"] = stand_in(tmp_path / "mbert", DEPTHS.get(name, 2))
    if name == "hussain2020":
        given |= {"native": stand_in(tmp_path / "bertje", 12, seed=1), "text": str(INVENTED / "drift/qaa.txt")}
    if name == "wu2020":
        given["crawl"] = str(data / "train")
    table = ig.reproduce(name, out=tmp_path / "run", **given)
    facts = read_facts(tmp_path / "run")
    assert facts["status"] == "finished" and facts["arguments"]["scale"] == "paper"
    paper, results = find(name), Results(table)
    unmeasured = {finding.name for finding in paper.findings(results) if not finding.contrasts}
    assert unmeasured == UNMEASURED.get(name, set())
    assert table.published.notna().any() or name == "muller2021"  # none of its numbers could be read
    assert paper.tables(results) and paper.figures(results)
    assert "Findings" in (tmp_path / "run/summary.txt").read_text(encoding="utf-8")
