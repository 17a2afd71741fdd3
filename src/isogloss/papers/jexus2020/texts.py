"""The data of a reproduction, written into its own folder: pairs to train, choose and test on, and parallel sentences.

| file | what it is |
|---|---|
| `mnli-train.tsv`, `mnli-dev.tsv` | English pairs, of `nli_en` in the data folder |
| `xnli-dev-LANG.tsv`, `xnli-test-LANG.tsv` | XNLI, of `xnli`; development sets are for the oracle |
| `sick-test-nl.tsv` | of SICK-NL's test part, of `nli_nl_sick`, as many pairs of each label: XNLI has no Dutch |
| `xnli.tsv`, `sick.tsv` | parallel sentences, a column a language: those the pairs are made of |

Where there is more than is wanted, rows are drawn, the same ones in every language.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from isogloss.errors import InputError
from isogloss.files import write_text
from isogloss.papers.samples import drawn
from isogloss.text import read_bitext
from isogloss.text.catalog import data_dir
from isogloss.text.corpora import Corpus
from isogloss.text.invented import invented
from isogloss.text.readers.inference import NLI, SentencePair, read_pairs
from isogloss.text.readers.lines import read_lines

INVENTED_SEED = 2
DUTCH = "nl"
Table = list[list[str]]  # rows of cells

TRAIN, DEV = "mnli-train", "mnli-dev"
PARALLEL, DUTCH_PARALLEL = "xnli", "sick"


def tested(language: str) -> str:
    """What the test set of a language is called.

    >>> tested("de"), tested("nl")
    ('xnli-test-de', 'sick-test-nl')
    """
    return f"sick-test-{language}" if language == DUTCH else f"xnli-test-{language}"


def developed(language: str) -> str:
    """What the development set of a language other than the source is called."""
    return f"xnli-dev-{language}"


def read_texts(
    data: str | None,
    source: str,
    targets: Sequence[str],
    *,
    train: str | None,
    count: int,
    limit: int | None,
    dutch: bool,
) -> dict[str, Table]:
    """Every table by the name of its file.

    train: a file of pairs to train on instead, of which `count` are taken at most. limit: of every set.
    """
    folder = data_dir(data)
    file = Path(train) if train else _file(folder / "nli_en" / "mnli_train.tsv", "pairs to train on")
    found = {
        TRAIN: _pairs(read_pairs(file), min(count, limit or count)),
        DEV: _pairs(read_pairs(_file(folder / "nli_en" / "mnli_val.tsv", "English pairs to choose by")), limit),
    }
    for language in (source, *targets):
        for part, name in (("dev", developed(language)), ("test", tested(language))):
            if part == "test" or language != source:
                path = _file(folder / "xnli" / f"{part}-{language}.tsv", "a set of XNLI")
                found[name] = _pairs(read_pairs(path), limit)
    texts = read_bitext(_file(folder / "xnli" / "xnli.15way.tsv", "parallel sentences"), languages=[source, *targets])
    found[PARALLEL] = _parallel([corpus for corpus in texts], limit)
    if dutch:
        path = _file(folder / "nli_nl_sick" / "SICK_NL.txt", "pairs in Dutch")
        found[tested(DUTCH)] = _pairs(_balanced(read_pairs(path, split="test")), limit)
        found[DUTCH_PARALLEL] = _sick(path, source, limit)
    return found


def invented_texts(source: str, targets: Sequence[str], *, pairs: int, known: int) -> dict[str, Table]:
    """The same of invented languages, and `known.LANG` to pretrain on.

    A sentence entails its last word, is neutral to another sentence, and contradicts three at once: something that a
    tiny model can learn, and that means nothing.
    """
    found: dict[str, Table] = {}
    bitext = invented([source, *targets], known + 3 * pairs, seed=INVENTED_SEED)
    for corpus in bitext:
        sentences, language = corpus.sentences, corpus.language
        found[f"known.{language}"] = [[one] for one in sentences[:known]]
        train, dev, test = (list(sentences[known + part * pairs :][:pairs]) for part in range(3))
        if language == source:
            found[TRAIN] = _made(train)
        found[DEV if language == source else developed(language)] = _made(dev)
        found[tested(language)] = _made(test)
    found[PARALLEL] = _parallel([corpus for corpus in bitext.take(range(known, known + 3 * pairs))], None)
    return found


def write_texts(folder: Path, texts: Mapping[str, Table]) -> None:
    """One file a table: `NAME.tsv`, or `NAME.txt` where it has one column."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in texts.items():
        suffix = "txt" if len(rows[0]) == 1 else "tsv"
        write_text(folder / f"{name}.{suffix}", "".join("\t".join(row) + "\n" for row in rows))


def _file(path: Path, what: str) -> Path:
    if not path.is_file():
        raise InputError(f"{path} is missing: {what}; docs/reproduce.md lists the files of the data folder")
    return path


def _pairs(pairs: Sequence[SentencePair], count: int | None) -> Table:
    return [[pairs[row].first, pairs[row].second, pairs[row].label] for row in drawn(range(len(pairs)), count)]


def _balanced(pairs: Sequence[SentencePair]) -> list[SentencePair]:
    """As many pairs of each label: 57% of SICK are neutral, so that always saying so would look like knowledge."""
    rows = {label: [row for row, one in enumerate(pairs) if one.label == label] for label in NLI}
    least = min(len(some) for some in rows.values())
    kept = sorted(row for some in rows.values() for row in drawn(some, least))
    return [pairs[row] for row in kept]


def _parallel(corpora: Sequence[Corpus], count: int | None) -> Table:
    rows = drawn(range(len(corpora[0])), count)
    return [[corpus.language for corpus in corpora], *([corpus.sentences[row] for corpus in corpora] for row in rows)]


def _sick(path: Path, source: str, count: int | None) -> Table:
    """The distinct sentences of SICK-NL beside their originals."""
    head, *lines = (line.split("\t") for line in read_lines(path))
    try:
        columns = [(head.index(f"sentence_{one}_original"), head.index(f"sentence_{one}")) for one in "AB"]
    except ValueError as error:
        raise InputError(
            f"{path}:1: the columns sentence_A, sentence_A_original and so on of SICK-NL are missing"
        ) from error
    pairs = {(cells[there].strip(), cells[here].strip()) for cells in lines for there, here in columns}
    whole = sorted(pair for pair in pairs if all(pair))
    return [[source, DUTCH], *(list(whole[row]) for row in drawn(range(len(whole)), count))]


def _made(sentences: Sequence[str]) -> Table:
    rows = []
    for number, one in enumerate(sentences):
        label = NLI[number % len(NLI)]
        three = " ".join(sentences[number - 3 : number]) or one
        second = {"entailment": one.split()[-1], "neutral": sentences[number - 1], "contradiction": three}[label]
        rows.append([one, second, label])
    return rows
