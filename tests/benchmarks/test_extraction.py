"""The benchmark of reading all layers runs whole with a tiny decoder: both sides give the same vectors."""

import sys

from benchmarks import extraction


def test_a_decoder_is_read_beside_a_plain_loop_and_a_bare_pass(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["extraction", "--shape", "tiny", "--sentences", "40", "--rounds", "1"])
    extraction.main()
    heads, _, cells = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.split("\n")[2:5]
    )
    line = dict(zip(heads, cells, strict=True))
    assert line["sentences"] == "40" and 20 < float(line["tokens"]) < 35
    assert float(line["largest difference"]) < 1e-5
    assert float(line["padding"]) > 1.2 and float(line["bare, sentences/s"]) > 0
