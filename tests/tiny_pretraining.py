"""Text of invented languages in files, and options for a pretraining that takes half a second."""

from benchmarks.invented import invented, invented_lexicon

from tiny_commands import flags

LANGUAGES = ("qaa", "qab")
SMALL = {
    "architecture": "bert",
    "depth": 2,
    "width": 16,
    "heads": 2,
    "vocabulary": 150,
    "length": 16,
    "batch": 4,
    "steps": 4,
    "warm_up": 0.5,
    "report": 2,
    "probe": 2,
    "checkpoint": 2,
    "held_out": 0.1,
    "device": "cpu",
}


def write_texts(folder, languages=LANGUAGES, sentences=200):
    """A file a language, `qaa.txt`; returns them by language."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for corpus in invented(languages, sentences=sentences, seed=1):
        files[corpus.language] = folder / f"{corpus.language}.txt"
        files[corpus.language].write_text("\n".join(corpus.sentences) + "\n", encoding="utf-8")
    return files


def write_lexicon(path, pairs=None):
    """A dictionary of both languages: these pairs of words, or all."""
    given = invented_lexicon(*LANGUAGES, seed=1) if pairs is None else pairs
    path.write_text("".join(f"{one} {other}\n" for one, other in given))
    return path


def write_lexicons(folder):
    """A dictionary to learn from and one to test, every third word in the latter."""
    pairs = list(invented_lexicon(*LANGUAGES, seed=1))
    train = write_lexicon(folder / "qaa-qab.train.txt", [one for i, one in enumerate(pairs) if i % 3])
    return train, write_lexicon(folder / "qaa-qab.test.txt", pairs[::3])


def options(files, **changes):
    """The same as words of a command."""
    return flags({"text": [f"{language}={path}" for language, path in files.items()], **SMALL, **changes})


def weights_of(folder):
    """The bytes of every model in a folder, by their place in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("model.safetensors"))}
