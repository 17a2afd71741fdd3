"""What pieces stand for: the ways tokenizers write bytes, and the unknown piece."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from isogloss.text.pieces import byte_alphabet, byte_ids, unknown_id
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
