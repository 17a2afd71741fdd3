"""A data folder as pan2021 reads it, of a few lines each, and a scale for it."""

import json
from dataclasses import replace

from isogloss.papers.pan2021.scales import SCALES


def write_table(path, head, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [*([head] if head else []), *rows]
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")


def data_folder(folder):
    """The least data folder for English with Dutch and German."""
    labels = ("entailment", "neutral", "contradiction")
    for name, count in (("mnli_train", 30), ("mnli_val", 12)):
        rows = [[f"first {one}", f"second {one}", labels[one % 3]] for one in range(count)]
        write_table(folder / "nli_en" / f"{name}.tsv", ["sentence1", "sentence2", "label"], rows)
    for language in ("en", "de"):
        for part in ("dev", "test"):
            rows = [[f"{language} {part} premise {one}", f"{language} h {one}", labels[one % 3]] for one in range(12)]
            write_table(folder / "xnli" / f"{part}-{language}.tsv", None, rows)
    rows = [[f"der Satz {one}", f"sentence {one}"] for one in range(20)]
    write_table(folder / "xnli" / "xnli.15way.tsv", ["de", "en"], rows)
    head = ["pair_ID", "sentence_A", "sentence_B", "entailment_label", "sentence_A_original", "sentence_B_original",
            "SemEval_set"]  # fmt: skip
    sick = [
        [str(one), f"zin {one}", f"zin {one + 1}", labels[one % 3].upper(), f"line {one}", f"line {one + 1}", part]
        for one, part in enumerate(["TRAIN"] * 9 + ["TRIAL"] * 3 + ["TEST"] * 10)
    ]
    write_table(folder / "nli_nl_sick" / "SICK_NL.txt", head, sick)
    for code in ("nld", "deu"):
        for side in ("eng", code):
            path = folder / "tatoeba" / f"tatoeba.{code}-eng.{side}"
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{side} tatoeba sentence {one}.\n" for one in range(12)), encoding="utf-8")
    for language, code in (("nl", "nld"), ("de", "deu")):
        own = [[f"An English sentence, number {one}", f"{language} zin nummer {one}"] for one in range(40)]
        tested = [["Sentence 3!", "x"], ["fine", f"{code.upper()} Tatoeba, sentence 7"], ["y", "EN dev premise 4"],
                  ["z", "der Satz 5 ..."], ["q", "Zin 2"], ["", "no English"]]  # fmt: skip
        write_table(folder / "tatoeba_train" / f"en-{language}.tsv", None, own + tested)
    rows = [[f"A manual says {one}", f"das Handbuch {one}", f"het boek {one}"] for one in range(30)]
    write_table(folder / "libreoffice_help" / "lohelp.7way.tsv", ["en", "de", "nl"], rows)
    squad = [{"title": f"t{one}", "paragraphs": [_paragraph(f"s{one}")]} for one in range(60)]
    for path, content in {
        "squad/train-v1.1.json": squad, "xquad/xquad.en.json": [{"title": "", "paragraphs": [_paragraph("x")]}],
        "xquad/xquad.de.json": [{"title": "", "paragraphs": [_paragraph("y")]}],
        "mlqa/dev-context-en-question-en.json": [{"title": "", "paragraphs": [_paragraph("z")]}],
        "mlqa/dev-context-de-question-de.json": [{"title": "", "paragraphs": [_paragraph("w")]}],
    }.items():  # fmt: skip
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(json.dumps({"data": content}), encoding="utf-8")
    return folder


def _paragraph(name):
    asked = [
        {"id": f"{name}-{one}", "question": f"what is {name} {one}?", "answers": [{"text": "it", "answer_start": 0}]}
        for one in range(2)
    ]
    return {"context": f"it is {name}", "qas": asked}


def small_scale():
    tested = {"tested": ("de",), "asked": ("de",), "asked_too": ("de",), "aligned": ("nl", "de")}
    return replace(SCALES["mini"], **tested, train=9, questions=20, compared=16, evaluated=10, pairs=20, chosen=2)
