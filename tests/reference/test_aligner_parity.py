"""The aligner against fast_align, and the joining of directions against its atools, link by link.

The references were made from the embedded sentences, English with each language, words and marks separated (`words`):
`fast_align -d -o -v` forward and with `-r`, joined by `atools` (github.com/clab/fast_align, commit cab1e9a). Of each
list of links the number and a hash are kept here.
"""

import re
from hashlib import sha256

import pytest

from isogloss.measures.word_alignment import (
    ALIGNERS,
    METHODS,
    align_words,
    best_links,
    combine,
    count_words,
    fit,
    flip,
)
from isogloss.text.readers.dictionaries import embedded

FAST_ALIGN = ALIGNERS["fast_align"]
TENSION = {  # the final one, forward and reverse
    "nl": (6.71581, 7.23015),
    "de": (6.74684, 6.96652),
    "fr": (7.32436, 8.87657),
    "es": (7.26497, 7.4275),
    "ru": (7.56619, 6.20226),
}
LINKS = {
    "nl": {
        "forward": (2154, "2d097d3f7edf1b04"),
        "reverse": (2186, "a58d32b66b917569"),
        "intersection": (1946, "d220ee484404f537"),
        "union": (2394, "565cf6cf4a27d879"),
        "grow-diag": (2317, "a7056c915f7fcdf7"),
        "grow-diag-final-and": (2318, "93c68d0649710591"),
    },
    "de": {
        "forward": (2154, "c86d287572333483"),
        "reverse": (2171, "2e1b1482d12bce3d"),
        "intersection": (1823, "a0cbc07912483e22"),
        "union": (2502, "6158f9cb4b144f9e"),
        "grow-diag": (2393, "59662a905da9f987"),
        "grow-diag-final-and": (2398, "ec2a6f78ee0b9acb"),
    },
    "fr": {
        "forward": (2493, "8f8017d92051226d"),
        "reverse": (2177, "c47ffc30be197176"),
        "intersection": (1932, "f1deeda7f5997927"),
        "union": (2738, "117cbc7874254a78"),
        "grow-diag": (2616, "4091c8c61c22b366"),
        "grow-diag-final-and": (2617, "18488608e5fe799f"),
    },
    "es": {
        "forward": (2145, "b0f42f719fe24744"),
        "reverse": (2178, "1e5163cbf6af4310"),
        "intersection": (1836, "807b4eae8c59011d"),
        "union": (2487, "20e5107f086847bd"),
        "grow-diag": (2385, "7fe95fa2dd70f249"),
        "grow-diag-final-and": (2388, "86f9112da8c0c41f"),
    },
    "ru": {
        "forward": (1830, "7d0ec0935beb35f7"),
        "reverse": (2118, "6d03fa6449870b26"),
        "intersection": (1526, "cef756aa0217cfd9"),
        "union": (2422, "c924e57aadf3a861"),
        "grow-diag": (2298, "f41f41ab92fff690"),
        "grow-diag-final-and": (2299, "99223462bf00a831"),
    },
}
# "las" stands twice in this sentence, equally far from the diagonal: rounding decides which of the two is linked.
TIED = {"es": 133}


def words(language):
    return [re.findall(r"\w+|[^\w\s]", sentence) for sentence in embedded()[language].sentences]


def signature(links, language):
    rows = [[] if row == TIED.get(language) else sorted(each) for row, each in enumerate(links)]
    return sum(map(len, rows)), sha256(repr(rows).encode()).hexdigest()[:16]


@pytest.mark.parametrize("language", LINKS)
def test_links_are_those_of_fast_align_and_atools(language):
    source, target, directions = words("en"), words(language), {}
    met = count_words(source, target, ignore_case=False)
    for direction, tension in zip(("forward", "reverse"), TENSION[language], strict=True):
        table, fitted = fit(met, FAST_ALIGN)
        assert fitted.prior == pytest.approx(tension, abs=1e-5)
        directions[direction] = best_links(met, table, model=fitted, sentences=len(source))
        met = flip(met)
    directions["reverse"] = [[(i, j) for j, i in row] for row in directions["reverse"]]
    for direction, links in directions.items():
        assert signature(links, language) == LINKS[language][direction], direction
    for method in METHODS:
        joined = [combine(*rows, method=method) for rows in zip(*directions.values(), strict=True)]
        assert signature(joined, language) == LINKS[language][method], method
    assert joined == align_words(source, target, model=FAST_ALIGN)


def test_the_standard_aligner_is_another_one():
    assert signature(align_words(words("en"), words("nl")), "nl") != LINKS["nl"]["grow-diag-final-and"]
