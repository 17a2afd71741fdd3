import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from isogloss.errors import InputError
from isogloss.text.readers.parallel import read_folder
from isogloss.text.sampling import hash_fraction

SCRIPT = Path(__file__).parents[2] / "scripts" / "mini_text.py"


@pytest.fixture(scope="module")
def mini_text():
    spec = importlib.util.spec_from_file_location("mini_text", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mini_text"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mini_text"]


def words(prefix: str, n: int) -> str:
    return " ".join(f"{prefix}{'abcdefghij'[i % 10] * (i // 10 + 1)}" for i in range(n)).capitalize()


@pytest.fixture
def data(tmp_path):
    root = tmp_path / "data"

    def put(name: str, *lines: str) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    names = ["".join("bcdfghklmnpr"[int(digit)] + "a" for digit in f"{i:03}") for i in range(600)]
    debates = [f"{words(name, 6)}. {words(name + 'x', 7)}." for name in names]
    singles = [f"{words(name, 6)}." for name in names]
    put("mono/europarl.nl.txt", *debates)
    put("mono/dracor.nl.txt", "Dit is oude taal die niet mee mag.")
    put("mono/zhwiki.zh.txt", *(f"这是第{'一二三四五六七八九十'[i % 10] * (i // 10 + 1)}个句子。" for i in range(90)))
    put("everyday/commonvoice.zh.txt", "我们今天下午一起去公园散步。")
    put("everyday/commonvoice_hk.zh.txt", "佢哋聽日會唔會嚟呀你知唔知。")
    header, sides = "en\tde\tes\tfr\tnl", "A b c d.\tE f g h.\tI j k l.\tM n o p.\t"
    put("europarl/europarl.80k.en-de-es-fr-nl.tsv", header, *(sides + single for single in singles))
    put(
        "docs_po/qgis_docs.en-nl.tsv", "Open the map_ in !QGIS now.\tOpen de kaart nu in QGIS.", "Same words on both\tX"
    )
    row = [
        "Click the big button now.",
        "Klik jetzt auf den Knopf.",
        "Pulse ahora el gran botón.",
        "Cliquez sur le bouton.",
    ]
    put("libreoffice_help/lohelp.7way.tsv", "en\tde\tes\tfr\tnl\tru\tzh", "\t".join([*row, "Klik", "Нажми", "点"]))
    for language in ["en", "nl", "de", "fr", "es", "ru", "zh"]:
        put(f"wikiann_panx/train-{language}.tsv", "x\tO", "")
    put(
        "wikiann_panx/train-nl.tsv",
        "'\tO",
        "''\tO",
        "Korea\tB-LOC",
        "''\tO",
        "'\tO",
        "is\tO",
        "een\tO",
        "land\tO",
        ".\tO",
    )
    squad = {"data": [{"paragraphs": [{"context": "Tom went home early. He was tired."}]}]}
    put("squad/train-v1.1.rebuilt.json", json.dumps(squad))
    put("tatoeba/tatoeba.nld-eng.nld", "open de kaart nu in qgis")
    put("tatoeba/tatoeba.nld-eng.eng", "Open the map now.")
    for language in ["nl", "de", "fr", "es", "ru", "zh"]:
        put(f"tatoeba_train/en-{language}.tsv", "Open the map now!\tWeg", *(f"{name} b c\tz{name}" for name in names))
    return root


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_sentences_end_at_marks_but_not_at_abbreviations(mini_text):
    assert mini_text.sentences("Zie nr. A van 3. mei. Goed zo! “Ja.” Nee", "nl") == [
        "Zie nr. A van 3. mei.",
        "Goed zo!",
        "“Ja.”",
        "Nee",
    ]
    assert mini_text.sentences("他说：“好。”我走了！真的？", "zh") == ["他说：“好。”", "我走了！", "真的？"]


def test_pieces_keep_every_sentence_and_stay_short(mini_text):
    text = " ".join(f"{words('w', 20)}." for _ in range(60))
    parts = mini_text.pieces(text, "nl")
    assert " ".join(parts) == text
    assert len(parts) > 1
    assert max(map(len, parts)) <= mini_text.LONGEST


def test_tables_and_other_scripts_are_no_running_text(mini_text):
    assert not mini_text.is_running_text("12 | 34 | 56 ab", "en")
    assert not mini_text.is_running_text("Only English here", "ru")
    assert mini_text.is_running_text("在2009年，人口为313人。", "zh")


def test_tokens_are_joined_without_wiki_marks(mini_text):
    assert mini_text.join_tokens(["E", "x", "#", "国"], "zh") == "Ex 国"
    assert mini_text.join_tokens(["*Best", "of", "(", "1999", ")", ",", "vol", "."], "en") == "Best of (1999), vol."
    assert mini_text.join_tokens(["REDIRECCIÓN", "Madrid"], "es") == ""
    assert mini_text.join_tokens(["|", "align=left", "x"], "en") == ""


def test_wrapped_lines_are_joined(mini_text):
    assert list(mini_text.join_wrapped(["Один и", "два.", "три", "Четыре"])) == ["Один и два.", "три", "Четыре"]


def test_drift_leaves_what_training_has(mini_text, monkeypatch):
    monkeypatch.setattr(mini_text, "DRIFT", 2)
    pool = [mini_text.Line("laws", "Een twee drie vier. Vijf zes zeven acht. Negen tien elf twaalf. Kort.", 0.03)]
    train = [mini_text.Line("laws", "Iets anders hier. EEN twee, drie vier!", 0.5)]
    chosen = mini_text.choose_drift(pool, train, set(), Counter())
    assert chosen == ["Vijf zes zeven acht.", "Negen tien elf twaalf."]


def test_end_to_end(mini_text, data, tmp_path, monkeypatch):
    monkeypatch.setattr(mini_text, "DRIFT", 40)
    scripts = mini_text.Scripts(lambda text: text.replace("这", "這"), lambda text: text.replace("這", "这"))
    monkeypatch.setattr(mini_text, "chinese_scripts", lambda: scripts)
    out = tmp_path / "out"
    assert mini_text.main([str(data), str(out)]) == 0
    first = json.loads((out / "facts.json").read_text())["files"]
    drift, held = read(out / "drift" / "nl.txt"), read(out / "held" / "nl.txt")
    debates, rows = read(out / "train" / "mono_europarl.nl.txt"), read(out / "train" / "europarl.nl.txt")
    assert len(drift) == 40
    assert held and all(hash_fraction(text) < 0.02 for text in held)
    assert not set(drift) & set(rows)
    # A row is kept exactly when its debate is neither held nor in the pool, and then not when it is held itself.
    starts = {debate.split(". ")[0] + "." for debate in debates}
    assert set(rows) <= starts
    assert not (out / "train" / "dracor.nl.txt").exists()
    assert not (out / "train" / "qgis_docs.nl.txt").exists()  # its one long line is in the Tatoeba test
    assert read(out / "train" / "qgis_docs.en.txt") == ["Open the map in QGIS now.", "Same words on both"]
    assert read(out / "train" / "wikiann.nl.txt") == ["Korea is een land."]
    assert len(read(out / "train" / "commonvoice.zh.txt")) == 1
    assert not (out / "train" / "commonvoice_hk.zh.txt").exists(), "Cantonese is left out"
    chinese = read(out / "train" / "zhwiki.zh.txt")
    assert 0.2 < sum(line.startswith("這") for line in chinese) / len(chinese) < 0.6
    assert mini_text.main([str(data), str(out)]) == 0
    assert json.loads((out / "facts.json").read_text())["files"] == first


def test_dev_reads_as_tatoeba_and_avoids_its_test(mini_text, data, tmp_path):
    assert mini_text.main([str(data), str(tmp_path / "out"), "--dev"]) == 0
    bitexts = read_folder(tmp_path / "out" / "dev", None)
    assert [bitext.name for bitext in bitexts] == [f"tatoeba.en-{x}" for x in ["de", "es", "fr", "nl", "ru", "zh"]]
    english = read(tmp_path / "out" / "dev" / "tatoeba.nld-eng.eng")
    assert len(english) == len(set(english)) == 600
    assert "Open the map now!" not in english


def test_missing_folders_are_one_sentence(mini_text, tmp_path, capsys):
    assert mini_text.main([str(tmp_path), str(tmp_path / "out")]) == 2
    assert "lacks the folders tatoeba, mono" in capsys.readouterr().err


def test_missing_opencc_says_how_to_install(mini_text, monkeypatch):
    monkeypatch.setitem(sys.modules, "opencc", None)
    with pytest.raises(InputError, match="pip install opencc"):
        mini_text.chinese_scripts()
