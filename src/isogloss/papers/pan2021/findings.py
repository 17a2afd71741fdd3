"""What Pan et al. (2021) found, judged on the rows of a reproduction, and two questions of this project's own.

Models are compared seed by seed: a seed draws the same order of pairs and examples and the same head for each. Scores
are means over the languages of a test besides English.
"""

from collections.abc import Sequence

import pandas as pd

from isogloss.figure import percent, signed
from isogloss.papers.evidence import (
    LEAST,
    Contrast,
    Finding,
    Seeds,
    above,
    all_of,
    below,
    no_interval,
    over,
    share_over_seeds,
)
from isogloss.papers.pan2021.published import (
    AIMS,
    BEFORE,
    BOTH,
    CONTRASTIVE,
    RISE,
    SEARCH,
    SWITCHED,
    TITLES,
    TLM,
    TRANSLATED,
    UNSHUFFLED,
    titled,
)  # fmt: skip
from isogloss.papers.pan2021.reading import Results, less, title


def findings(rows: pd.DataFrame) -> list[Finding]:
    """Every finding of the paper that its abstract names, then amounts of text, and what this project asks."""
    found = Results(rows)
    return [
        _above_chance(found), _rises(found), _both(found), _shuffling(found), _switching(found), _questions(found),
        _amounts(found), _search(found), _cost(found),
    ]  # fmt: skip


def _above_chance(found: Results) -> Finding:
    claim = (
        "(Not the paper's.) What is learned in one language carries over, before and after: accuracy is above chance."
    )
    contrasts, seeds = list[Contrast](), 0
    for name in (BEFORE, BOTH):
        scores, floors = found.score("accuracy", "xnli", name), found.floor("accuracy", "xnli", name)
        if scores and set(scores) <= set(floors):
            gain = over(less(scores, floors))
            words = f"{titled(name)} {_share(scores)} on XNLI, chance {percent(over(floors).value)}"
            contrasts.append(Contrast(words, above(gain)))
            seeds = len(scores)
    return _finding("above chance", claim, contrasts, seeds, "no inference was run")


def _rises(found: Results) -> Finding:
    claim = f"Zero-shot XNLI rises by alignment (by {100 * RISE:.1f} points on average)."
    scores = {name: found.score("accuracy", "xnli", name) for name in found.alignments}
    change = less(scores.get(BOTH, {}), scores[BEFORE])
    if not change:
        return Finding("zero-shot rises", claim, [], f"{titled(BEFORE)} and {titled(BOTH)} have no seed in common")
    rise = over(change)
    each = {
        one: over(less(found.score("accuracy", "xnli", BOTH, one), found.score("accuracy", "xnli", BEFORE, one)))
        for one in (*found.languages("xnli"), found.source)
    }
    words = f"{_from_to(scores[BEFORE], scores[BOTH])}, {rise.say(signed)}; "
    words += ", ".join(f"{title(language)} {one.say(signed)}" for language, one in each.items())
    contrasts = [Contrast(words, above(rise))]
    return _finding("zero-shot rises", claim, contrasts, rise.seeds, "")


def _both(found: Results) -> Finding:
    claim = "Both losses together are better than either alone."
    return _against(found, "both losses", claim, (TLM, CONTRASTIVE))


def _shuffling(found: Results) -> Finding:
    claim = "Random input shuffling helps."
    return _against(found, "shuffling", claim, (UNSHUFFLED,))


def _amounts(found: Results) -> Finding:
    claim = "More parallel text is better (the paper varies it; its numbers could not be read)."
    return _against(found, "amount of text", claim, [one for one in found.alignments if one not in TITLES])


def _against(found: Results, name: str, claim: str, others: Sequence[str]) -> Finding:
    """Zero-shot XNLI of both losses less that of others, which should be above 0; retrieval is said beside."""
    contrasts, seeds = list[Contrast](), 0
    mine = found.score("accuracy", "xnli", BOTH)
    for other in others:
        gain = less(mine, found.score("accuracy", "xnli", other))
        if not gain:
            return Finding(name, claim, [], f"{titled(BOTH)} and {titled(other)} have no seed in common")
        words = f"less {titled(other)} {over(gain).say(signed)}"
        beside = less(_tatoeba(found, BOTH), _tatoeba(found, other))
        words += f" (Tatoeba P@1 {over(beside).say(signed)})" if beside else ""
        contrasts.append(Contrast(words, above(over(gain))))
        seeds = len(gain)
    if contrasts:
        contrasts[0] = Contrast(f"zero-shot XNLI of both losses {contrasts[0].words}", contrasts[0].judged)
    return _finding(name, claim, contrasts, seeds, "nothing to compare with was run")


def _switching(found: Results) -> Finding:
    claim = "Code-switching of sentences helps where translations are trained on."
    contrasts, seeds = list[Contrast](), 0
    for data, what in (("xnli", "XNLI"), ("sick", "SICK in Dutch")):
        gains = {}
        for name in (BOTH, BEFORE):
            switched, plain = (found.score("accuracy", data, f"{name} {way}") for way in (SWITCHED, TRANSLATED))
            gains[name] = less(switched, plain)
        if gains[BOTH]:
            words = f"{what} {over(gains[BOTH]).say(signed)} with the aligned model"
            words += f", {over(gains[BEFORE]).say(signed)} with the model as it was" if gains[BEFORE] else ""
            contrasts.append(Contrast(words, above(over(gains[BOTH]))))
            seeds = len(gains[BOTH])
    return _finding("code-switching", claim, contrasts, seeds, "translate-train was not run both ways")


def _questions(found: Results) -> Finding:
    claim = "Answers to questions in other languages get better by alignment."
    contrasts, seeds = list[Contrast](), 0
    for data, what in (("mlqa", "MLQA"), ("xquad", "XQuAD")):
        before, after = (found.score("answer_f1", data, name) for name in (BEFORE, BOTH))
        gain = less(after, before)
        if gain:
            words = f"{what} F1 {_from_to(before, after)}, {over(gain).say(signed)}"
            contrasts.append(Contrast(words, above(over(gain))))
            seeds = len(gain)
    return _finding("questions", claim, contrasts, seeds, "no questions were asked before and after")


def _search(found: Results) -> Finding:
    aims = " and ".join(f"{100 * aim:.0f} for {', '.join(group)}" for group, aim in AIMS.items())
    claim = f"(This project's aim, not the paper's.) Aligned for search, Tatoeba P@1 is at least {aims}."
    contrasts, seeds = list[Contrast](), 0
    for group, aim in AIMS.items():
        there = [one for one in group if one in found.languages("tatoeba")]
        scores = found.retrieval(SEARCH, there) if len(there) == len(group) else {}
        if scores:
            words = f"{', '.join(group)}: {_share(scores)} at layer {found.best_layer(SEARCH)}"
            for name in (BOTH, BEFORE):
                beside = found.retrieval(name, there)
                words += f", {titled(name)} {percent(over(beside).value)}" if beside else ""
            contrasts.append(Contrast(words, above(over(scores), aim)))
            seeds = len(scores)
    return _finding("search", claim, contrasts, seeds, "these languages were not aligned for search and mapped")


def _cost(found: Results) -> Finding:
    claim = "(Not the paper's.) Alignment costs nothing in perplexity: it rises in no language."
    factors = {one: found.factor(BOTH, one) for one in found.spoken}
    factors = {one: some for one, some in factors.items() if some}
    if not factors:
        return Finding("perplexity", claim, [], "no perplexity was read before and after")
    each = {one: over(some, log=True) for one, some in factors.items()}
    words = ", ".join(f"{title(one)} {factor.share}" for one, factor in each.items())
    others = {name: found.factor(name) for name in found.alignments if name not in (BEFORE, BOTH)}
    beside = ", ".join(f"{titled(name)} {over(some, log=True).value:.3f}" for name, some in others.items() if some)
    words = f"factors with both losses: {words}" + (f"; means over languages of the others: {beside}" if beside else "")
    judged = [below(one, 1.0) for one in each.values()]
    return _finding("perplexity", claim, [Contrast(words, all_of(judged))], min(map(len, factors.values())), "")


def _tatoeba(found: Results, alignment: str) -> Seeds:
    return found.retrieval(alignment, found.languages("tatoeba"))


def _share(seeds: Seeds) -> str:
    return share_over_seeds(list(seeds.values())).say(percent)


def _from_to(before: Seeds, after: Seeds) -> str:
    return f"from {percent(over(before).value)} to {percent(over(after).value)}"


def _finding(name: str, claim: str, contrasts: Sequence[Contrast], seeds: int, missing: str) -> Finding:
    if not contrasts:
        return Finding(name, claim, [], missing)
    return Finding(name, claim, contrasts, no_interval(seeds) if seeds < LEAST else "")
