"""Lines are read strictly, and cut at line feeds only."""

import gzip
import lzma

import pytest

from isogloss.errors import InputError
from isogloss.text.readers.lines import read_lines, stream_lines


@pytest.fixture
def write(tmp_path):
    def _write(content, name="text.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return _write


def test_only_line_feeds_end_a_line(write):
    inside = "one\u2028still one\x85still\x0bstill\x0cstill\rstill"
    assert read_lines(write(f"{inside}\ntwo\n")) == [inside, "two"]


def test_windows_line_ends_and_the_byte_order_mark_are_removed_and_nothing_else(write):
    assert read_lines(write(b"\xef\xbb\xbf one \r\n\r\ntwo\t\n")) == [" one ", "", "two\t"]


def test_a_last_line_without_an_end_counts(write):
    assert read_lines(write("one\ntwo")) == ["one", "two"]
    assert read_lines(write("one\n\n")) == ["one", ""]


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a.xz", lzma.compress), ("a.txt", gzip.compress)])
def test_compressed_files_are_read_as_text(write, name, pack):
    assert read_lines(write(pack("één\ntwee\n".encode()), name)) == ["één", "twee"]


def test_a_byte_that_is_not_utf8_names_file_and_line(write):
    path = write(b"good\nbad \xe9 here\n")
    with pytest.raises(InputError, match=rf"{path}:2: not valid UTF-8 \(byte 0xe9 at position 5"):
        read_lines(path)


def test_utf16_is_named(write):
    with pytest.raises(InputError, match="looks like UTF-16"):
        read_lines(write("text\n".encode("utf-16")))


def test_an_empty_file_says_so(write):
    with pytest.raises(InputError, match="text.txt is empty"):
        read_lines(write(b""))
    with pytest.raises(InputError, match="e.gz is empty"):
        read_lines(write(gzip.compress(b"", mtime=0), "e.gz"))


def test_a_missing_file_names_its_neighbours(write):
    path = write("x\n", "english.txt")
    with pytest.raises(InputError, match=r"englsh.txt does not exist; .* has english.txt"):
        read_lines(path.with_name("englsh.txt"))
    with pytest.raises(InputError, match="nor does the folder"):
        read_lines(path.parent / "nowhere" / "english.txt")


def test_a_folder_where_a_file_is_expected(tmp_path):
    with pytest.raises(InputError, match="is a folder; a file was expected"):
        read_lines(tmp_path)


@pytest.mark.parametrize(("name", "pack"), [("a.gz", gzip.compress), ("a.xz", lzma.compress)])
def test_a_cut_archive_is_one_sentence(write, name, pack):
    content = pack(b"".join(b"%d some text\n" % number for number in range(5000)))
    with pytest.raises(InputError, match=r"damaged or cut short"):
        read_lines(write(content[: len(content) // 2], name))


def test_with_a_collector_reading_goes_on_and_counts_stay_right(write):
    found = []
    lines = list(stream_lines(write(b"a\n\xff\nc\n\xfe\n"), found.append))
    assert [number for number, _ in lines] == [1, 2, 3, 4]
    assert [sentence.split(":")[1] for sentence in found] == ["2", "4"]
