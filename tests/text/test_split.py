"""Which paragraphs are set aside is decided by the paragraph alone, the same for ever."""

import unicodedata

import pytest

from isogloss.text.sampling import hash_fraction, held_out

PARAGRAPHS = [f"Paragraph {number} tells of {number * number % 97} things." for number in range(5_000)]


def test_places_are_the_same_for_ever():
    """Text that a published model was kept from must stay apart: these numbers may never change."""
    assert hash_fraction("The cat sleeps.") == pytest.approx(0.9879569058789544, abs=1e-15)
    assert hash_fraction("猫在睡觉。") == pytest.approx(0.5716955594285171, abs=1e-15)


def test_spacing_and_composition_do_not_matter_and_anything_else_does():
    assert (
        hash_fraction(" The\tcat  sleeps.\n")
        == hash_fraction("The cat sleeps.")
        == hash_fraction("The\u00a0cat\u3000sleeps.")
    )
    assert hash_fraction(unicodedata.normalize("NFD", "Où est l'été ?")) == hash_fraction(
        unicodedata.normalize("NFC", "Où est l'été ?")
    )
    assert (
        len(
            {hash_fraction(text) for text in ("The cat sleeps.", "the cat sleeps.", "The cat sleeps", "Thecat sleeps.")}
        )
        == 4
    )


@pytest.mark.parametrize("share", [0.02, 0.25, 0.5])
def test_the_share_is_kept_and_shares_are_nested(share):
    found = sum(held_out(text, share) for text in PARAGRAPHS)
    spread = 4 * (len(PARAGRAPHS) * share * (1 - share)) ** 0.5
    assert abs(found - len(PARAGRAPHS) * share) < spread
    assert all(held_out(text, share + 0.1) for text in PARAGRAPHS if held_out(text, share))


def test_places_are_even_and_none_or_all_can_be_set_aside():
    counts = [0] * 10
    for text in PARAGRAPHS:
        assert 0 <= hash_fraction(text) < 1
        counts[int(hash_fraction(text) * 10)] += 1
    assert sum((count - 500) ** 2 / 500 for count in counts) < 27.9  # chi-squared of 9 degrees, 1 in 1,000
    assert not any(held_out(text, 0.0) for text in PARAGRAPHS)
    assert all(held_out(text, 1.0) for text in PARAGRAPHS)
