"""What Pan et al. (2021) report, the names of what is compared here, and numbers of others to hold beside.

Of the paper its abstract alone could be read, so there is one number of its own: zero-shot accuracy on XNLI rises by
4.7 points on average. `OTHERS_XNLI` are of other papers.
"""

from collections.abc import Mapping

ABOUT = "Pan, Hang, Qi, Shah, Potdar & Yu (2021), Multilingual BERT post-pretraining alignment"
RISE = 0.047  # zero-shot XNLI, the best alignment less mBERT, the mean over languages: the abstract

BEFORE, BOTH, TLM, CONTRASTIVE, UNSHUFFLED, SEARCH = "before", "both", "tlm", "contrastive", "unshuffled", "search"
AMOUNTS: Mapping[str, float] = {"10%": 0.1, "30%": 0.3}
ZERO, TRANSLATED, SWITCHED = "zero-shot", "translated", "switched"
TITLES = {
    BEFORE: "before", BOTH: "both losses", TLM: "TLM only", CONTRASTIVE: "contrastive only",
    UNSHUFFLED: "both, no shuffling", SEARCH: "for search",
}  # fmt: skip
CHANGE = "change"  # a score after alignment less that before, seed by seed
FACTOR = "factor"  # perplexity after alignment by that before
AIMS = {("de", "fr", "nl", "es"): 0.90, ("ru", "zh"): 0.82}  # Tatoeba P@1: the aims of this project, not the paper's

# XNLI accuracy as published elsewhere. mBERT (uncased, zero-shot): github google-research/bert, multilingual.md. XLM,
# fine-tuned on English: github facebookresearch/XLM, README.
OTHERS_XNLI: Mapping[str, Mapping[str, float]] = {
    "mBERT": {"en": 0.814, "de": 0.705, "es": 0.743, "zh": 0.638, "ar": 0.621, "ur": 0.583},
    "XLM (MLM)": {"en": 0.832, "de": 0.742, "es": 0.763, "zh": 0.719, "ar": 0.685, "ur": 0.634},
    "XLM (MLM+TLM)": {"en": 0.850, "de": 0.778, "es": 0.789, "zh": 0.765, "ar": 0.731, "ur": 0.673},
}
# XLM-R Base, zero-shot, mean over languages, F1 and exact match: model card of XLM-Align.
OTHERS_MLQA = {"XLM-R Base": (0.651, 0.472)}


def titled(alignment: str) -> str:
    """What tables call an alignment; amounts of text are both losses on less of it.

    >>> titled("tlm"), titled("10%")
    ('TLM only', 'both, 10% of the text')
    """
    return TITLES.get(alignment, f"both, {alignment} of the text")
