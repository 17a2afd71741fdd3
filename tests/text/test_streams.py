"""Text as token ids on disk: every paragraph once and whole, and only files that were written whole are opened."""

import json
import tracemalloc

import numpy as np
import pytest
from tokenizers import processors

from isogloss.errors import InputError
from isogloss.progress import listening
from isogloss.text.batches import fit
from isogloss.text.readers.lines import paragraphs
from isogloss.text.sampling import ItemSampler
from isogloss.text.streams import (
    borders_of,
    lay_out,
    open_pairs,
    open_stream,
    pack,
    pack_pairs,
    sentence_ends,
    texts_of,
)
from isogloss.text.words import spans
from tiny_models import MARKS, TEXT, framed, tiny_tokenizer, wordpiece_machine


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def test_paragraphs_are_stripped_lines_of_all_files(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_bytes("\ufeffone \r\n\n  two\u2028three\n \t\n".encode())
    second.write_text("four", encoding="utf-8")
    assert list(paragraphs([first, second])) == ["one", "two\u2028three", "four"]
    assert list(paragraphs([first, second], keep=lambda text: "o" in text[0])) == ["one"]


def test_paragraphs_come_one_at_a_time(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\n\xff\n")
    lines = paragraphs([path])
    assert next(lines) == "fine"
    with pytest.raises(InputError, match=r"a\.txt:2: not valid UTF-8"):
        next(lines)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.txt does not exist"):
        list(paragraphs([tmp_path / "none.txt"]))


def test_packed_ids_are_the_tokenizers_own_end_to_end(tokenizer, tmp_path):
    texts = TEXT * 700  # more than one chunk
    stream = pack(tokenizer, iter(texts), tmp_path / "en.npy", language="en")
    expected = [number for text in texts for number in tokenizer(text)["input_ids"]]
    assert stream.ids.tolist() == expected
    assert stream.tokens == len(expected)
    assert stream.paragraphs == len(texts) == int((stream.ids == tokenizer.cls_token_id).sum())
    assert stream.characters == sum(len(text) for text in texts)
    assert stream.words == sum(len(spans(text, "en")) for text in texts)
    assert stream.ids.dtype == np.uint16
    assert isinstance(stream.ids.base, np.memmap)  # on disk, and sliced as a plain array


def test_nothing_is_cut_whatever_the_tokenizer_did_before(tokenizer, tmp_path):
    tokenizer(["a", "b c"], truncation=True, padding=True, max_length=4)  # leaves its settings behind
    long = " ".join(TEXT[:4] * 40)
    stream = pack(tokenizer, [long], tmp_path / "en.npy", language="en")
    assert stream.tokens == len(tokenizer(long, verbose=False)["input_ids"]) > tokenizer.model_max_length
    assert stream.ids[0] == tokenizer.cls_token_id
    assert stream.ids[-1] == tokenizer.sep_token_id


def test_special_tokens_written_in_the_text_are_text(tokenizer, tmp_path):
    stream = pack(tokenizer, ["the [MASK] [SEP] cat"], tmp_path / "en.npy", language="en")
    assert tokenizer.mask_token_id not in stream.ids
    assert (stream.ids == tokenizer.sep_token_id).sum() == 1


def test_a_large_vocabulary_takes_four_bytes(tmp_path):
    large = tiny_tokenizer()
    large.add_tokens([f"extra{number}" for number in range(2**16)])
    stream = pack(large, ["the cat extra65535"], tmp_path / "en.npy", language="en")
    assert stream.ids.dtype == np.uint32
    assert stream.ids.tolist() == large("the cat extra65535")["input_ids"]
    assert stream.ids.max() >= 2**16


def test_opened_again_it_is_the_same(tokenizer, tmp_path):
    path = tmp_path / "zh.npy"
    stream, again = pack(tokenizer, TEXT, path, language="zh"), open_stream(path)
    assert np.array_equal(stream.ids, again.ids)
    assert np.array_equal(np.load(path), again.ids)
    facts = ("language", "tokens", "paragraphs", "characters", "words")
    assert [getattr(stream, name) for name in facts] == [getattr(again, name) for name in facts]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["zh.json", "zh.npy"]


def test_no_text_is_an_empty_stream(tokenizer, tmp_path):
    stream = pack(tokenizer, [], tmp_path / "en.npy", language="en")
    assert (stream.tokens, stream.paragraphs) == (0, 0)


def test_an_error_half_way_leaves_the_old_stream(tokenizer, tmp_path):
    path = tmp_path / "en.npy"
    before = pack(tokenizer, TEXT, path, language="en").ids.tolist()

    def broken():
        yield from TEXT * 400
        raise InputError("en.txt:3201: not valid UTF-8")

    with pytest.raises(InputError, match="3201"):
        pack(tokenizer, broken(), path, language="en")
    assert open_stream(path).ids.tolist() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["en.json", "en.npy"]


@pytest.mark.parametrize("damage", ["cut", "foreign", "numbers", "counts", "list", "gone", "no counts"])
def test_a_damaged_or_foreign_file_is_named(tokenizer, tmp_path, damage):
    path, facts = tmp_path / "en.npy", tmp_path / "en.json"
    pack(tokenizer, TEXT, path, language="en")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-10])
    elif damage == "foreign":
        path.write_bytes(b"something else")
    elif damage == "numbers":
        np.save(path, np.zeros(5))
    elif damage == "counts":
        facts.write_text(json.dumps({**json.loads(facts.read_text()), "tokens": 7}))
    elif damage == "list":
        facts.write_text("[1, 2]")
    else:
        (path if damage == "gone" else facts).unlink()
    with pytest.raises(InputError, match=r"en\.(npy|json).*pack the text again"):
        open_stream(path)


def test_progress_counts_bytes(tokenizer, tmp_path):
    told = []
    size = sum(len(text.encode()) + 1 for text in TEXT)
    with listening(lambda *news: told.append(news)):
        pack(tokenizer, TEXT, tmp_path / "en.npy", language="en", total=size)
    assert told == [("packing en", size, size)]


# Pairs of translations


def sides(stream, number):
    first, second, end = stream.begins[2 * number : 2 * number + 3]
    return stream.ids[first:second], stream.ids[second:end]


def packed(pairs, path, longest=64, tokenizer=None):
    return pack_pairs(tokenizer or tiny_tokenizer(), pairs, path, languages=("en", "nl"), longest=longest)


def test_borders_are_what_the_tokenizer_puts_there():
    borders = borders_of(tiny_tokenizer())
    assert borders == {1: [(2,), (3,)], 2: [(2,), (3,), (3,)]}


def test_packed_pairs_are_what_the_tokenizer_makes_of_them(tmp_path):
    tokenizer = tiny_tokenizer()
    pairs = [("the cat sleeps", "de kat slaapt"), ("yes", "[SEP] [MASK] ja"), ("猫", "we drink water")]
    stream = packed(pairs, tmp_path / "p.npy")
    assert len(stream) == 3 and stream.languages == ("en", "nl") and stream.ids.dtype == np.uint16
    for number in (0, 2):
        for side, text in zip(sides(stream, number), pairs[number], strict=True):
            assert side.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
    marks = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    assert not marks & set(stream.ids.tolist()), "a mark that is written in the text is text"
    again = open_pairs(tmp_path / "p.npy")
    assert np.array_equal(again.ids, stream.ids) and np.array_equal(again.begins, stream.begins)


def test_empty_sides_go_and_long_ones_are_cut_and_both_are_counted(tmp_path):
    long = "the cat sleeps on the chair " * 4
    stream = packed(
        [("", "ja"), ("yes", " "), ("yes", "ja"), (long, "ja"), (long, long)], tmp_path / "p.npy", longest=16
    )
    assert (len(stream), stream.left_out, stream.cut) == (3, 2, 2)
    assert len(sides(stream, 1)[0]) == 14 and len(sides(stream, 2)[1]) == 14


def test_what_is_no_packed_text_is_refused(tmp_path):
    with pytest.raises(InputError, match="does not hold packed text"):
        open_pairs(tmp_path / "none.npy")
    packed([("yes", "ja")] * 3, tmp_path / "p.npy")
    (tmp_path / "p.json").write_text((tmp_path / "p.json").read_text().replace('"pairs": 3', '"pairs": 4'))
    with pytest.raises(InputError, match="its file of counts says 4 pairs"):
        open_pairs(tmp_path / "p.npy")


def test_memory_does_not_grow_with_the_text(tmp_path):
    tokenizer = tiny_tokenizer()

    def peak(count):
        tracemalloc.start()
        pairs = (("the cat sleeps on the chair", "de kat slaapt op de stoel") for _ in range(count))
        stream = pack_pairs(tokenizer, pairs, tmp_path / f"{count}.npy", languages=("en", "nl"), longest=64)
        ItemSampler({"en-nl": len(stream)}, exponent=1.0, seed=0).rows(10, 32)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(12_000) < 1.2 * peak(4_000)


def test_two_marks_between_are_borders_too():
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    borders = borders_of(tokenizer)
    assert borders[2] == [(2,), (3, 3), (3,)]
    whole = tokenizer("the cat", "de kat")["input_ids"]
    a, b = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("the cat", "de kat"))
    assert whole == [*borders[2][0], *a, *borders[2][1], *b, *borders[2][2]]


@pytest.mark.parametrize("length", [4, 7, 128])
def test_texts_are_paragraphs_cut_into_the_fewest_equal_pieces(length):
    random = np.random.default_rng(0)
    paragraphs = [random.integers(5, 90, size) for size in (1, 2, 5, 0, 126, 300, 7)]
    ids = np.concatenate([np.concatenate([[2], each, [3]]) for each in paragraphs])
    texts = texts_of(ids, [(2,), (3,)], length=length)
    pieces = [ids[begin:end] for begin, end in texts.T]
    assert np.array_equal(np.concatenate(pieces), np.concatenate(paragraphs)), "every token is in one piece, in order"
    assert len(pieces) == sum(-(-len(each) // (length - 2)) for each in paragraphs)
    at = 0
    for each in paragraphs:
        number = -(-len(each) // (length - 2))
        sizes = [len(piece) for piece in pieces[at : at + number]]
        assert not sizes or max(sizes) - min(sizes) <= 1 and max(sizes) <= length - 2
        at += number


@pytest.mark.parametrize("length", [8, 16, 64])
@pytest.mark.parametrize("frame", [[(2,), (3,), (3,)], [(2,), (3, 3), (3,)]])
def test_texts_of_two_sides_are_cut_behind_the_sentence_that_ends_nearest_their_middle(length, frame):
    random = np.random.default_rng(length)
    ids = np.concatenate([[2, *random.integers(5, 20, random.integers(0, 90)), 3] for _ in range(200)])
    ends = [7, 11]
    kinds = set()
    texts = [text for text in texts_of(ids, [frame[0], frame[-1]], length=length - len(frame[1])).T if np.ptp(text) > 1]
    pairs = texts_of(ids, frame, length=length, ends=ends)
    assert pairs.shape == (3, len(texts))
    for (begin, end), pair in zip(texts, pairs.T.tolist(), strict=True):
        cuts = [at for at in range(begin + 1, end) if ids[at - 1] in ends and ids[at] not in ends]
        middle = min(cuts, key=lambda at: (abs(2 * at - begin - end), at), default=(begin + end) // 2)
        assert pair == [begin, middle, end]
        kinds.add((bool(cuts), middle < (begin + end) // 2))
    assert {(True, True), (True, False), (False, False)} <= kinds, "the test has seen every case"


def test_pieces_that_end_a_sentence():
    pieces = {".": 5, "!": 6, "?": 7, "…": 8, "。": 9, "cat": 10, ",": 11, "##.": 12, ".5": 13, "...": 14}
    tokenizer = framed(wordpiece_machine({mark: number for number, mark in enumerate(MARKS)} | pieces))
    assert sentence_ends(tokenizer) == [5, 6, 7, 8, 9, 12, 14]


def test_texts_of_a_tokenizer_with_several_special_tokens():
    ids = np.array([8, 9, 20, 21, 4, 5, 8, 9, 22, 4, 5])
    texts = texts_of(ids, [(8, 9), (4, 5)], length=5)
    assert texts.tolist() == [[2, 3, 8], [3, 4, 9]]


@pytest.mark.parametrize("frame", [[(2,), ()], [(), (3,)], [(2,), (2,)], [(2, 3), ()]])
def test_texts_are_told_apart_by_the_special_tokens_that_there_are(frame):
    random = np.random.default_rng(1)
    paragraphs = [random.integers(5, 90, size) for size in (1, 4, 0, 9, 2)]
    ids = np.array([token for each in paragraphs for token in (*frame[0], *each, *frame[1])])
    texts = texts_of(ids, frame, length=40)
    assert [ids[begin:end].tolist() for begin, end in texts.T] == [each.tolist() for each in paragraphs if len(each)]
    pairs = texts_of(ids, [frame[0], (3,), frame[1]], length=40)
    assert [ids[begin:end].tolist() for begin, _, end in pairs.T] == [
        each.tolist() for each in paragraphs if len(each) > 1
    ]


@pytest.mark.parametrize("seed", range(5))
def test_fitted_texts_do_not_overlap_and_leave_little_room(seed):
    lengths = np.minimum(128, 3 + np.random.default_rng(seed).exponential(40, 500)).astype(int).tolist()
    rows, places = fit(lengths, 128)
    table = np.zeros((rows.max() + 1, 128), dtype=int)
    for row, place, size in zip(rows, places, lengths, strict=True):
        assert place + size <= 128
        table[row, place : place + size] += 1
    assert table.max() == 1
    assert table.mean() > 0.97


def test_laid_out_texts_stand_in_their_frame():
    text = np.array([7, 8, 9]), np.array([1, 2])
    ids, positions, owners, types, content = lay_out([text], np.array([6, 0]), (2, 6), [(1, 2), (3,)], padding=0)
    assert ids.tolist() == [[1, 2, 8, 9, 3, 0], [1, 2, 7, 3, 0, 0]]
    assert positions.tolist() == [[0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 0, 0]]
    assert owners.tolist() == [[1, 1, 1, 1, 1, -1], [0, 0, 0, 0, -1, -1]]
    assert not types.any() and content.tolist() == [[0, 0, 1, 1, 0, 0], [0, 0, 1, 0, 0, 0]]


def test_laid_out_pairs_stand_in_their_frame_with_the_type_of_each_side():
    sides = (np.array([7, 8, 9]), np.array([1, 2])), (np.array([5, 6, 4]), np.array([2, 1]))
    ids, positions, owners, types, content = lay_out(sides, np.array([7, 0]), (2, 7), [(1,), (2, 2), (3,)], padding=0)
    assert ids.tolist() == [[1, 8, 9, 2, 2, 4, 3], [1, 7, 2, 2, 5, 6, 3]]
    assert positions.tolist() == [[0, 1, 2, 3, 4, 5, 6]] * 2
    assert owners.tolist() == [[1] * 7, [0] * 7]
    assert types.tolist() == [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1]]
    assert content.tolist() == [[0, 1, 1, 0, 0, 1, 0], [0, 1, 0, 0, 1, 1, 0]]
