"""Treebanks and named entities of invented languages, for a reproduction that needs no data.

The sentences are those of `isogloss.text.invented`; what each word is follows from the language's own grammar. The verb
is the root, the first noun its subject (the second where the language begins with the object), articles and adjectives
hang on their noun. One noun in four is a person, one in four a place.
"""

from collections.abc import Iterator, Mapping, Sequence

from isogloss.text.invented import Grammar, grammar, invented

SEED = 1
TAGS = {"noun": "NOUN", "verb": "VERB", "adjective": "ADJ", "adverb": "ADV", "article": "DET", "stop": "PUNCT"}
RELATIONS = {"ADJ": "amod", "ADV": "advmod", "DET": "det", "PUNCT": "punct", "VERB": "root"}
ENTITIES = {0: "B-PER", 1: "B-LOC"}
Words = list[tuple[str, ...]]


def invented_sets(languages: Sequence[str], counts: Mapping[str, int]) -> dict[str, dict[str, list[Words]]]:
    """Sentences of each language by the name of a set, of which so many are wanted, as words: (form, concept).

    Sets differ in what their sentences say, and the same set of two languages says the same.
    """
    bitext = invented(languages, sum(counts.values()), seed=SEED)
    found: dict[str, dict[str, list[Words]]] = {}
    for corpus in bitext:
        concepts = {word: concept for concept, word in grammar(corpus.language, SEED).words.items()}
        words: list[Words] = [
            [(text[start:end], concepts[text[start:end]]) for start, end in spans]
            for text, spans in zip(corpus.sentences, corpus.words or (), strict=True)
        ]
        start = 0
        for name, count in counts.items():
            found.setdefault(name, {})[corpus.language] = words[start : start + count]
            start += count
    return found


def as_conllu(sentences: Sequence[Sequence[tuple[str, ...]]], language: str, *, name: str) -> str:
    """A treebank; ids are the same in every language."""
    speech = grammar(language, SEED)
    return "".join(_tree(words, speech, f"{name}-{number}") for number, words in enumerate(sentences))


def as_tags(sentences: Sequence[Sequence[tuple[str, ...]]]) -> str:
    """Named entities, a word and its tag a line."""
    return "".join("".join(f"{form}\t{_entity(concept)}\n" for form, concept in words) + "\n" for words in sentences)


def _entity(concept: str) -> str:
    return ENTITIES.get(int(concept.removeprefix("noun")) % 4, "O") if concept.startswith("noun") else "O"


def _tree(words: Sequence[tuple[str, ...]], speech: Grammar, identifier: str) -> str:
    tags = [TAGS[concept.rstrip("0123456789")] for _, concept in words]
    text = " ".join(form for form, _ in words[:-1]) + words[-1][0]
    lines = [f"# sent_id = {identifier}", f"# text = {text}"]
    rows = zip(words, tags, _heads(tags, speech), strict=True)
    for number, ((form, _), tag, (head, relation)) in enumerate(rows, 1):
        last = "SpaceAfter=No" if number >= len(words) - 1 else "_"
        lines.append("\t".join([str(number), form, "_", tag, "_", "_", str(head), relation, "_", last]))
    return "\n".join(lines) + "\n\n"


def _heads(tags: Sequence[str], speech: Grammar) -> Iterator[tuple[int, str]]:
    verb = tags.index("VERB") + 1
    nouns = [place for place, tag in enumerate(tags, 1) if tag == "NOUN"]
    subject = nouns[1 if speech.order == "osv" else 0]
    for place, tag in enumerate(tags, 1):
        if tag == "NOUN":
            yield verb, "nsubj" if place == subject else "obj"
        elif tag == "DET" or (tag == "ADJ" and speech.adjective_first):
            yield min(noun for noun in nouns if noun > place), RELATIONS[tag]
        elif tag == "ADJ":
            yield max(noun for noun in nouns if noun < place), RELATIONS[tag]
        else:
            yield (0 if tag == "VERB" else verb), RELATIONS[tag]
