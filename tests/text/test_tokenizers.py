"""Tokenizers from text: what is shared between languages, characters found again, and the same result every time."""

from collections import Counter
from functools import cache

import pytest
from transformers import AutoConfig, AutoTokenizer

from isogloss.errors import InputError
from isogloss.progress import listening
from isogloss.text.readers.dictionaries import embedded
from isogloss.text.tokenizers import SPECIAL, _rates, _spread, train_tokenizers

LANGUAGES = ("en", "nl", "ru", "zh")
SIZES = {"wordpiece": 900, "unigram": 700}
KINDS = tuple(SIZES)


@cache
def sentences(language):
    (corpus,) = (one for one in embedded(LANGUAGES) if one.language == language)
    return corpus.sentences


def texts(*languages):
    return {language: lambda language=language: iter(sentences(language)) for language in languages}


@cache
def made(kind, spaces, *languages):
    return train_tokenizers(
        texts(*languages), kind=kind, size=SIZES[kind] // (2 if spaces != "joint" else 1), spaces=spaces
    )


@cache
def joint(kind):
    return made(kind, "joint", *LANGUAGES)["en"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_joint_tokenizer_is_one_object_of_the_size_asked(kind):
    found = made(kind, "joint", *LANGUAGES)
    assert list(found) == list(LANGUAGES)
    assert len({id(one) for one in found.values()}) == 1
    assert len(joint(kind)) == SIZES[kind]
    assert sorted(joint(kind).get_vocab().values()) == list(range(SIZES[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_stand_around_sentences_and_pairs(kind):
    tokenizer = joint(kind)
    assert tokenizer.convert_tokens_to_ids(list(SPECIAL)) == [0, 1, 2, 3, 4]
    one, other = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("The bread", "Our house"))
    assert tokenizer("The bread")["input_ids"] == [2, *one, 3]
    assert tokenizer("The bread", "Our house")["input_ids"] == [2, *one, 3, *other, 3]
    assert set(tokenizer("The bread", "Our house")) == {"input_ids", "attention_mask"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_offsets_point_at_the_characters_of_the_piece(kind, language):
    tokenizer = joint(kind)
    for text in [*sentences(language)[:40], "  Two  spaces, and\ta tab "]:
        encoded = tokenizer(text, return_offsets_mapping=True)
        covered = ""
        for piece, (start, end) in zip(
            tokenizer.convert_ids_to_tokens(encoded["input_ids"]), encoded["offset_mapping"], strict=True
        ):
            if piece in SPECIAL and piece != "[UNK]":
                assert start == end
                continue
            if piece == "▁" and not covered:  # put before the text: it points at the first character, like XLM-R's
                continue
            covered += text[start:end]
            if piece != "[UNK]":
                # Unigram shows compatible characters (，) in their plain form (,): compare what normalisation leaves.
                spelled = piece.removeprefix("##") if kind == "wordpiece" else piece.replace("▁", "")
                shown = tokenizer.backend_tokenizer.normalizer.normalize_str(text[start:end]).strip()
                assert shown == spelled
                assert kind == "unigram" or text[start:end] == spelled
        assert "".join(covered.split()) == "".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_gives_the_words_back(kind):
    tokenizer = joint(kind)
    for language in ("en", "ru"):
        text = next(text for text in sentences(language) if "[UNK]" not in tokenizer.tokenize(text))
        back = tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True)
        assert "".join(back.split()) == "".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", [None, "bert", "modernbert", "xlm-roberta"])
def test_saved_and_loaded_it_gives_the_same_ids(kind, family, tmp_path):
    """Also beside the config of a model whose own tokenizer class would clean text differently."""
    tokenizer = joint(kind)
    tokenizer.save_pretrained(tmp_path)
    if family:
        AutoConfig.for_model(family).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert (len(loaded), loaded.model_max_length) == (len(tokenizer), 512)
    lines = [*(text for language in LANGUAGES for text in sentences(language)[:20]), "Über ÉTÉ ﬁ ½ 猫cat", "[MASK] a"]
    assert loaded(lines)["input_ids"] == tokenizer(lines)["input_ids"]
    assert set(loaded("a")) == set(tokenizer("a"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spaces", ["union", "prefix"])
def test_one_table_of_ids_for_several_tokenizers(kind, spaces):
    found = made(kind, spaces, "en", "nl", "ru")
    size = SIZES[kind] // 2
    assert len({len(one) for one in found.values()}) == 1
    assert all(sorted(one.get_vocab().values()) == list(range(len(one))) for one in found.values())
    ids = {
        language: {number for text in sentences(language) for number in one(text)["input_ids"]}
        for language, one in found.items()
    }
    own = {
        language: {number: piece for piece, number in one.get_vocab().items() if " " not in piece}
        for language, one in found.items()
    }
    for language in found:
        assert len(own[language]) == size
        assert ids[language] <= set(own[language])
        # Text of any language, and text that spells out how another language's pieces are written.
        strange = [*sentences("en"), *sentences("nl"), *found["en"].get_vocab(), *found["nl"].get_vocab()]
        given = {number for one in found[language](strange)["input_ids"] for number in one}
        assert given <= set(own[language])
    marks = dict(enumerate(SPECIAL))
    if spaces == "prefix":
        assert own["en"].items() & own["nl"].items() == marks.items()
        assert set(own["en"]) & set(own["nl"]) == set(marks)
        assert len(found["en"]) == 3 * (size - 5) + 5
    else:
        alike = set(own["en"].values()) & set(own["nl"].values())
        assert len(alike) > 30
        assert alike == {own["en"][number] for number in set(own["en"]) & set(own["nl"])}
        assert own["en"].items() & own["nl"].items() >= marks.items()
        assert len(found["en"]) == len(set().union(*(one.values() for one in own.values())))


@pytest.mark.parametrize("kind", KINDS)
def test_a_shared_table_cuts_text_as_separate_tables_do(kind):
    own = made(kind, "own", "en", "nl")
    for spaces in ("union", "prefix"):
        for language, tokenizer in made(kind, spaces, "en", "nl").items():
            for text in sentences(language)[:50]:
                assert tokenizer.tokenize(text) == own[language].tokenize(text)
                ids = tokenizer(text)["input_ids"]
                assert tokenizer.decode(ids) == own[language].decode(own[language](text)["input_ids"])


def test_own_tables_start_at_nought():
    found = made("wordpiece", "own", "en", "nl")
    assert found["en"] is not found["nl"]
    assert all(sorted(one.get_vocab().values()) == list(range(SIZES["wordpiece"] // 2)) for one in found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_gives_the_same_vocabulary(kind):
    again = train_tokenizers(texts(*LANGUAGES), kind=kind, size=SIZES[kind])["en"]
    assert again.backend_tokenizer.to_str() == joint(kind).backend_tokenizer.to_str()


def test_wordpiece_cuts_ideographs_apart_and_keeps_accents():
    tokenizer = joint("wordpiece")
    assert all(
        len(piece.removeprefix("##")) == 1 for piece in tokenizer.tokenize("我们家有一个大厨房") if piece != "[UNK]"
    )
    lines = {"fr": lambda: ["Été à la Mère, été à la mère " * 3] * 50 + sentences("en")}
    kept = train_tokenizers(lines, size=300)["fr"]
    lowered = train_tokenizers(lines, size=300, lowercase=True)["fr"]
    assert kept.tokenize("Été Mère") == ["Été", "Mère"]
    assert lowered.tokenize("Été Mère") == ["été", "mère"]


def test_rare_characters_give_way():
    """A third of the vocabulary is the most that single characters may take; the others are unknown."""
    rare = [chr(0x4E00 + number) for number in range(300)]
    lines = {"zh": lambda: [*sentences("en"), *rare]}
    for kind in KINDS:
        tokenizer = train_tokenizers(lines, kind=kind, size=300)["zh"]
        assert len(tokenizer) == 300
        assert tokenizer.unk_token_id in tokenizer(rare[-1])["input_ids"]
        assert tokenizer.unk_token_id not in tokenizer(sentences("en")[0])["input_ids"]


def test_shares_of_the_sample():
    rates = _rates({"en": 1_000_000, "nl": 10_000}, 0.5, 505_000)
    read = {"en": rates["en"] * 1_000_000, "nl": rates["nl"] * 10_000}
    assert sum(read.values()) == pytest.approx(505_000)
    assert read["en"] / read["nl"] == pytest.approx(10)  # the square root of a hundred
    assert sum(_rates({"en": 70, "nl": 30}, 0.7, 10**9).values()) > 0
    assert _rates({"en": 70}, 0.7, 10**9) == {"en": 1.0}


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0, 2.5])
def test_a_sample_is_spread_over_the_whole_text(rate):
    taken = Counter(_spread(map(str, range(10_000)), rate))
    assert sum(taken.values()) == pytest.approx(10_000 * rate, abs=5)
    assert max(taken.values()) - min(taken.get(str(number), 0) for number in range(10_000)) <= 1
    for start in range(0, 10_000, 1_000):
        part = sum(taken.get(str(number), 0) for number in range(start, start + 1_000))
        assert part == pytest.approx(1_000 * rate, abs=4)


def test_text_is_read_as_a_stream_and_only_the_sample_is_used():
    late = ["zebra crossing"] * 500
    lines = {"en": lambda: iter([*sentences("en"), *late, *late])}
    tokenizer = train_tokenizers(lines, size=200, sample=20_000)["en"]
    assert "zebra" in tokenizer.get_vocab()


@pytest.mark.parametrize("kind", KINDS)
def test_more_pieces_than_the_text_supports(kind):
    with pytest.raises(InputError, match=r"the text of en, nl supports [\d,]+ pieces, not 32,000; lower --vocabulary"):
        train_tokenizers(texts("en", "nl"), kind=kind)


def test_empty_text_and_wrong_choices_are_refused():
    with pytest.raises(InputError, match="the text of nl is empty"):
        train_tokenizers({**texts("en"), "nl": lambda: iter([])}, size=200)
    with pytest.raises(InputError, match="too small"):
        train_tokenizers(texts("en"), size=10)


def test_progress_reaches_the_end():
    told = []
    with listening(lambda *news: told.append(news)):
        train_tokenizers(texts("en"), size=200)
    assert len(told) > 1, "also while the trainer draws the text, in a thread of its own"
    assert told[-1][1] == told[-1][2] > 0
