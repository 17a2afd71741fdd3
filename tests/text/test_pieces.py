"""What pieces stand for: the ways tokenizers write bytes, and the unknown piece."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from isogloss.text.pieces import (
    beginnings,
    byte_alphabet,
    byte_ids,
    first_pieces,
    piece_bytes,
    scripts_of,
    unknown_id,
)
from tiny_models import byte_level_tokenizer, tiny_tokenizer


def byte_fallback():
    """A SentencePiece-like BPE that knows a, b and 中, and the bytes of everything else."""
    pieces = ["<unk>", "▁", "a", "b", "中", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    machine = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    machine.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=machine, unk_token="<unk>")


def test_the_alphabet_of_bytes_is_that_of_the_tokenizers_package():
    assert sorted(byte_alphabet()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    machine = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in ("a ~\n", "é¡\xad", "中文", "\U00012345"):
        written = "".join(piece for piece, _ in machine.pre_tokenize_str(text))
        assert written == "".join(byte_alphabet()[byte] for byte in text.encode())


@pytest.mark.parametrize(
    ("tokenizer", "text", "share"),
    [
        (byte_level_tokenizer(), "aé中", [0, 1, 1, 1, 1, 1]),
        (byte_level_tokenizer([("Ã", "©")]), "aé", [0, 0]),  # a piece of two bytes is no single byte
        (byte_fallback(), "ab中", [0, 0, 0, 0]),
        (byte_fallback(), "aя", [0, 0, 1, 1]),
        (ByT5Tokenizer(), "aя", [0, 1, 1]),
        (tiny_tokenizer(), "the cat я中", None),
    ],
)
def test_single_bytes_are_known_in_every_spelling(tokenizer, text, share):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    known = byte_ids(tokenizer)
    assert [int(number in known) for number in ids] == (share or [0] * len(ids))
    assert share is not None or known == []


def test_the_unknown_piece_of_a_bare_file_is_that_of_its_model(tmp_path):
    whole = tiny_tokenizer()
    whole.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    bare = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert bare.unk_token_id is None and unknown_id(bare) == whole.unk_token_id == unknown_id(whole)
    unigram = Tokenizer(models.Unigram([("x", -1.0), ("<u>", 0.0), ("y", -1.0)], unk_id=1))
    assert unknown_id(PreTrainedTokenizerFast(tokenizer_object=unigram)) == 1
    assert unknown_id(byte_level_tokenizer()) is None


@pytest.mark.parametrize("tokenizer", [byte_level_tokenizer([("c", "a"), ("Ġ", "c"), ("Ã", "©")]), byte_fallback()])
def test_pieces_end_to_end_are_the_text(tokenizer):
    texts = piece_bytes(tokenizer)
    for text in ("ab", "a b", "é中я", "a\U00012345"):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert b"".join(texts[number] for number in ids).strip() == text.encode()


def test_what_continues_a_word_begins_none():
    tokenizer = tiny_tokenizer()
    vocabulary = tokenizer.get_vocab()
    texts = piece_bytes(tokenizer)
    for piece, number in vocabulary.items():
        assert texts[number] == (b"" if piece in tokenizer.all_special_tokens else piece.encode())
    begin = {number for own in beginnings(texts).values() for number in own}
    continues = {number for piece, number in vocabulary.items() if piece.startswith("##")}
    assert begin and not begin & continues
    assert scripts_of([b"##ing", "##ка".encode()]) == ["Latin", "Cyrillic"], "though they have a script"


def test_first_pieces_are_all_prefixes_with_and_without_a_space():
    tokenizer = byte_level_tokenizer([("c", "a"), ("Ġ", "c"), ("Ġc", "a"), ("ä", "¸")])
    texts = piece_bytes(tokenizer)
    known = beginnings(texts)
    for words in (["cat"], ["中", "丼"], ["cat", "dog"]):
        expected = [
            number
            for number, text in enumerate(texts)
            if text.removeprefix(b" ") and any(word.encode().startswith(text.removeprefix(b" ")) for word in words)
        ]
        assert first_pieces(words, known) == expected
    assert len(first_pieces(["cat"], known)) == 4, "c, ca, and both after a space"
    assert {texts[number] for number in first_pieces(["中"], known)} == {b"\xe4", b"\xe4\xb8"}


def test_scripts_are_those_of_the_first_whole_letter():
    assert scripts_of([b" cat", "кот".encode(), "中".encode(), b"\xe4", b" 12", b"", "1я".encode()]) == [
        "Latin", "Cyrillic", "Chinese", "", "", "", "Cyrillic",
    ]  # fmt: skip
