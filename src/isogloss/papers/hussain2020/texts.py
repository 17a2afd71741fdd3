"""The text of a reproduction: sentences to tune on, sentences of other languages to watch, text to pretrain on.

Everything is written into the reproduction's own folder, a sentence a line, and read from there. Where a file has more
sentences than are wanted, those of the lowest places (a hash of the sentence, `isogloss.text.sampling`) are taken, in
the order of the file: so neither a seed nor the order of the file decides.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from isogloss.errors import InputError
from isogloss.files import write_text
from isogloss.papers.samples import lowest
from isogloss.recipes.steps.tunedtext import split
from isogloss.text import read_corpus
from isogloss.text.catalog import data_dir
from isogloss.text.corpora import Corpus
from isogloss.text.invented import invented
from isogloss.text.readers.lines import read_lines
from isogloss.text.sampling import hash_fraction

INVENTED_SEED = 1
KNOWN, SEEN_RARELY = 400, 8  # invented sentences to pretrain on, of the target's only every eighth for the tuned model


def choose(sentences: Sequence[str], count: int) -> list[str]:
    """At most `count` sentences: those of the lowest places, in the order they came.

    >>> choose(["a", "b", "c", "d", "e"], 2)
    ['a', 'c']
    """
    if len(sentences) <= count:
        return list(sentences)
    return [sentences[row] for row in lowest([hash_fraction(one) for one in sentences], count)]


def tuned_text(text: str | None, data: str | None, language: str, count: int) -> Corpus:
    """The sentences to tune on: the file given, else `drift/LANG.txt` in the data folder."""
    path = Path(text) if text else None if data is None else Path(data) / "drift" / f"{language}.txt"
    if path is None or not path.is_file():
        missing = f"; {path} is no file" if path else ""
        raise InputError(
            f"--text is missing: give a file of {count:,} sentences of {language}, one a line, or a data folder with "
            f"drift/{language}.txt{missing}"
        )
    return Corpus(language, choose(list(read_corpus(path, language)), count), name=f"{language}.txt")


def premises(data: str | None, languages: Sequence[str], parts: Sequence[str], count: int) -> dict[str, Corpus]:
    """At most `count` distinct premises of XNLI a language, from `xnli/dev-LANG.tsv` and such in the data folder."""
    folder = data_dir(data) / "xnli"
    found = {}
    for language in languages:
        files = [folder / f"{part}-{language}.tsv" for part in parts]
        missing = [path for path in files if not path.is_file()]
        if missing:
            raise InputError(
                f"{missing[0]} is missing: the other languages are premises of XNLI, a file a language with premise, "
                "hypothesis and label between tabs"
            )
        lines = [line.split("\t")[0].strip() for path in files for line in read_lines(path)]
        distinct = list(dict.fromkeys(line for line in lines if line))
        found[language] = Corpus(language, choose(distinct, count), name=f"{language}.txt")
    return found


def invented_texts(languages: Sequence[str], tuned: int, watched: int) -> tuple[dict[str, Corpus], dict[str, Corpus]]:
    """Text of invented languages: to tune on and watch, and to pretrain on (`LANG`, and `native` for the first).

    The tuned model sees little of the first language before, so that there is something to gain.
    """
    target = languages[0]
    texts, known = {}, {}
    for corpus in invented(languages, KNOWN + max(tuned, watched), seed=INVENTED_SEED):
        fresh = corpus.sentences[KNOWN:]
        own = corpus.language == target
        texts[corpus.language] = Corpus(corpus.language, fresh[: tuned if own else watched])
        known[corpus.language] = Corpus(corpus.language, corpus.sentences[: KNOWN : SEEN_RARELY if own else 1])
        if own:
            known["native"] = Corpus(target, corpus.sentences[:KNOWN])
    return texts, known


def training_part(corpus: Corpus, share: float) -> Corpus:
    """What drift trains on when it holds out this share for the test, and as much for validation."""
    return split(corpus, share)[2]


def write_texts(folder: Path, texts: Mapping[str, Corpus]) -> None:
    """One file a text, `NAME.txt`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, corpus in texts.items():
        write_text(folder / f"{name}.txt", "\n".join(corpus) + "\n")
