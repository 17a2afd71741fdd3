"""Files and folders that appear whole or not at all."""

import errno

import pytest

from isogloss.files import clear_leftovers, is_leftover, whole_folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_when_it_is_whole(tmp_path):
    with whole_folder(tmp_path / "deep" / "model") as beside:
        (beside / "nl").mkdir()
        (beside / "nl" / "weights").write_text("new")
        (beside / "nl" / "weights").chmod(0o600)
        assert not (tmp_path / "deep" / "model").exists()
    assert names(tmp_path / "deep") == ["model"]
    path = tmp_path / "deep" / "model" / "nl" / "weights"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644, "readable by everyone, whatever its writer made of it"


def test_a_folder_takes_the_place_of_the_old_one_with_nothing_left_of_it(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").write_text("old")
    with whole_folder(tmp_path / "model") as beside:
        (beside / "new").write_text("new")
        assert names(tmp_path / "model") == ["old"]
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["new"]


@pytest.mark.parametrize("there", [True, False])
def test_an_error_leaves_what_was_there_and_nothing_beside_it(tmp_path, there):
    if there:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "old").write_text("old")
    with pytest.raises(KeyError, match="half"), whole_folder(tmp_path / "model") as beside:
        (beside / "new").write_text("new")
        raise KeyError("half")
    assert names(tmp_path) == (["model"] if there else [])
    assert not there or names(tmp_path / "model") == ["old"]


def test_a_folder_that_cannot_take_its_place_leaves_the_old_one_there(tmp_path, monkeypatch):
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "weights").write_text("old")
    move = type(tmp_path).replace

    def fails(path, target):
        if (path / "weights").read_text() == "new":
            raise OSError(errno.EIO, "Input/output error", str(target))
        return move(path, target)

    monkeypatch.setattr(type(tmp_path), "replace", fails)
    with pytest.raises(OSError, match="Input/output error"), whole_folder(tmp_path / "best") as beside:
        (beside / "weights").write_text("new")
    assert names(tmp_path) == ["best"]
    assert (tmp_path / "best" / "weights").read_text() == "old"


def test_a_full_disk_is_an_os_error_whichever_library_met_it(tmp_path):
    with pytest.raises(OSError, match="No space left on device") as caught, whole_folder(tmp_path / "model"):
        raise RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path / "model")
    with pytest.raises(OSError, match="quota") as caught, whole_folder(tmp_path / "model"):
        raise OSError(errno.EDQUOT, "quota (os error 28)", "elsewhere")
    assert caught.value.filename == "elsewhere"
    assert names(tmp_path) == []


def test_leftovers_of_a_kill_are_cleared_and_nothing_else(tmp_path):
    for name in (".rows.csv.7.part", "rows.csv", ".hidden", "other.part"):
        (tmp_path / name).write_text("x")
    (tmp_path / ".model.7.old.part" / "nl").mkdir(parents=True)
    (tmp_path / ".model.7.old.part" / "nl" / "weights").write_text("x")
    (tmp_path / "model").mkdir()
    clear_leftovers(tmp_path)
    assert names(tmp_path) == [".hidden", "model", "other.part", "rows.csv"]
    assert not any(is_leftover(path) for path in tmp_path.iterdir())
    clear_leftovers(tmp_path / "nothing")


def test_what_a_kill_took_away_between_two_moves_comes_back(tmp_path):
    (tmp_path / ".best.123.old.part").mkdir()
    (tmp_path / ".best.123.old.part" / "weights").write_text("good", encoding="utf-8")
    (tmp_path / ".best.123.part").mkdir()
    clear_leftovers(tmp_path)
    assert (tmp_path / "best" / "weights").read_text(encoding="utf-8") == "good"
    assert [one.name for one in tmp_path.iterdir()] == ["best"]


def test_what_was_replaced_is_removed_once_the_new_is_there(tmp_path):
    for name in ("best", ".best.123.old.part"):
        (tmp_path / name).mkdir()
    clear_leftovers(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["best"]
