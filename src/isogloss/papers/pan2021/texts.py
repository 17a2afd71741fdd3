"""The texts of a reproduction: read from the data folder and written into its own, or prepared before.

| folder | content |
|---|---|
| `pairs/0`, `pairs/1` ... | parallel text, `en-nl.tsv` in each; its amounts are the first part, the first two ... |
| `compared` | parallel sentences to map models by: XNLI's in all languages, and Tatoeba's of each with English |
| `evaluate` | sentences of each language for perplexity: XNLI's, for Dutch SICK's |
| `nli`, `qa` | tasks, see `tasktexts` |
| `texts.json` | how much of what there is, and a hash of every file |

No sentence of `compared`, `evaluate`, `nli` or of the parallel treebanks of UD (`ud_pud`), where these are in the data
folder, is in `pairs`.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.files import write_text
from isogloss.papers.pan2021.bitexts import choose, letters, sources_in
from isogloss.papers.pan2021.invented import invented_files
from isogloss.papers.pan2021.scales import Scale
from isogloss.papers.pan2021.tasktexts import (
    DUTCH,
    nli_files,
    qa_files,
    sentences_of,
    sick_files,
    there,
    translated_files,
)
from isogloss.papers.samples import drawn
from isogloss.progress import Progress, silent
from isogloss.text import read_bitext, read_bitexts
from isogloss.text.catalog import data_dir
from isogloss.text.readers.conll import read_treebank
from isogloss.text.readers.parallel import find_pairs

FACTS = "texts.json"
Files = dict[str, str]


class Texts:
    """Where the texts are, and what they are, read when that is first needed: a dry run needs none.

    prepared: a folder that `write` filled before, in place of the data. limit: rows of every set, for a rehearsal.
    """

    def __init__(
        self,
        folder: Path,
        scale: Scale,
        *,
        data: str | None = None,
        prepared: str | None = None,
        train: str | None = None,
        pairs: str | None = None,
        translated: str | None = None,
        limit: int | None = None,
    ) -> None:
        self.folder = folder if prepared is None else Path(prepared)
        self.scale, self.data, self.prepared, self.limit = scale, data, prepared, limit
        self.train, self.pairs, self.translated = train, pairs, translated

    def path(self, name: str) -> str:
        """Where a file or folder is."""
        return str(self.folder / name)

    def parts(self, share: float) -> list[str]:
        """The folders of pairs that make up a share of them."""
        return [self.path(f"pairs/{part}") for part, end in enumerate(shares_of(self.scale)) if end <= share]

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Hashes of every file, and notes."""
        return self._facts_there() if self.prepared is not None else self._made[1]

    def hashes(self) -> Mapping[str, str]:
        """A hash of each file."""
        found: Mapping[str, str] = self.facts["hashes"]
        return found

    def notes(self) -> Sequence[str]:
        """What there is to know of the text."""
        found: Sequence[str] = self.facts["notes"]
        return found

    def write(self, progress: Progress = silent) -> None:
        """Write every file that is not there as it should be; a prepared folder is left as it is."""
        if self.prepared is not None:
            return
        files, facts = self._made
        for number, (name, content) in enumerate(files.items()):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_file() or _digest(path.read_bytes()) != facts["hashes"][name]:
                write_text(path, content)
            progress("writing texts", number + 1, len(files))
        write_text(self.folder / FACTS, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")

    @cached_property
    def _made(self) -> tuple[Files, dict[str, Any]]:
        """The files by their names, and the facts that stand beside them."""
        files, notes = self._invented() if self.scale.model is None else self._read()
        hashes = {name: _digest(content.encode("utf-8")) for name, content in files.items()}
        return files, {"asked": self._asked, "notes": notes, "hashes": hashes}

    @property
    def _asked(self) -> dict[str, Any]:
        """What decides which texts there are."""
        scale = self.scale
        return {"languages": [scale.source, *scale.aligned], "shares": list(shares_of(scale)), "pairs": scale.pairs,
                "train": scale.train, "questions": scale.questions, "limit": self.limit}  # fmt: skip

    def _facts_there(self) -> dict[str, Any]:
        path = self.folder / FACTS
        if not path.is_file():
            raise InputError(f"--texts {self.folder} has no {FACTS}; scripts/pan_text.py prepares such a folder")
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name, value in self._asked.items():
            if facts["asked"].get(name) != value:
                raise InputError(
                    f"--texts {self.folder} was prepared otherwise: its {name} is {facts['asked'].get(name)}, and "
                    f"{value} is asked for; prepare it again, or ask for the same"
                )
        for name, known in facts["hashes"].items():
            file = self.folder / name
            if not file.is_file() or _digest(file.read_bytes()) != known:
                what = "is not what it was" if file.is_file() else "is missing"
                raise InputError(f"{file} {what}, of texts that were prepared; prepare them again")
        return facts

    def _invented(self) -> tuple[Files, list[str]]:
        scale = self.scale
        assert scale.pairs is not None
        files = invented_files(
            scale.source, scale.aligned, known=scale.known, pairs=scale.pairs, examples=scale.train,
            compared=scale.compared, evaluated=scale.evaluated, shares=shares_of(scale),
        )  # fmt: skip
        return files, []

    def _read(self) -> tuple[Files, list[str]]:
        scale, limit, folder = self.scale, self.limit, data_dir(self.data)
        train = None if self.train is None else there(Path(self.train), "pairs to train on")
        files = nli_files(folder, scale.source, scale.tested, train=train, count=scale.train, limit=limit)
        if self.translated is not None:
            english = train or folder / "nli_en" / "mnli_train.tsv"
            where: dict[str, Any] = {"train": english, "limit": limit}
            files |= translated_files(Path(self.translated), scale.source, scale.tested, **where)
        if scale.dutch:
            files |= sick_files(folder, scale.source, limit)
        tests = {letters(one) for one in sentences_of({k: v for k, v in files.items() if "mnli" not in k})}
        tests |= self._treebanks(folder)
        compared = self._compared(folder)
        files |= compared | self._evaluated(compared, files)
        for content in compared.values():
            tests |= {letters(cell) for line in content.split("\n") for cell in line.split("\t")}
        more, notes = self._pairs(folder, tests - {""})
        files |= more
        files |= qa_files(
            folder, (scale.source, *scale.asked), (scale.source, *scale.asked_too), questions=scale.questions,
            dev=scale.chosen, limit=limit,
        )  # fmt: skip
        if limit is not None:
            notes.insert(0, f"a rehearsal: every data set was cut to {limit:,} rows")
        return files, notes

    def _compared(self, folder: Path) -> Files:
        scale, most = self.scale, min(self.scale.compared, self.limit or self.scale.compared)
        languages = (scale.source, *scale.tested)
        bitext = read_bitext(there(folder / "xnli" / "xnli.15way.tsv", "parallel sentences"), languages=languages)
        rows = drawn(range(bitext.rows), most)
        found = {f"compared/xnli.{'-'.join(languages)}.tsv": _columns(bitext.take(rows))}
        if not (folder / "tatoeba").is_dir():
            raise InputError(f"{folder / 'tatoeba'} is missing: parallel sentences to test retrieval on")
        for text in read_bitexts(folder / "tatoeba", languages=[scale.source, *scale.aligned]):
            kept = text.take(drawn(range(text.rows), self.limit))
            found[f"compared/tatoeba.{'-'.join(text.languages)}.tsv"] = _columns(kept)
        return found

    def _evaluated(self, compared: Files, files: Files) -> Files:
        """The sentences of XNLI that are mapped; Dutch has none there."""
        table = next(content for name, content in compared.items() if "/xnli." in name)
        head, *rows = (line.split("\t") for line in table.rstrip("\n").split("\n"))
        found = {
            language: list(dict.fromkeys(row[column] for row in rows))[: self.scale.evaluated]
            for column, language in enumerate(head)
        }
        if self.scale.dutch:
            pairs = {"": files[f"nli/sick-test-{DUTCH}.tsv"]}
            found[DUTCH] = list(dict.fromkeys(one for one in sentences_of(pairs) if one))[: self.scale.evaluated]
        return {f"evaluate/{one}.txt": "".join(f"{line}\n" for line in lines) for one, lines in found.items()}

    def _treebanks(self, folder: Path) -> set[str]:
        languages = (self.scale.source, *self.scale.aligned)
        files = {one: folder / "ud_pud" / f"{one}_pud-ud-test.conllu" for one in languages}
        return {letters(line) for one, path in files.items() if path.is_file() for line in read_treebank(path, one)}

    def _pairs(self, folder: Path, tests: set[str]) -> tuple[Files, list[str]]:
        scale, limit = self.scale, self.limit
        sources = sources_in(folder) if self.pairs is None else {self.pairs: find_pairs(self.pairs, option="pairs")}
        most = scale.pairs if limit is None else limit
        files, notes = Files(), []
        for language in scale.aligned:
            title = f"{scale.source}-{language}"
            found = choose(
                sources, (scale.source, language), tests=tests, shares=shares_of(scale), most=most, whole=limit
            )
            for part, pairs in enumerate(found.parts):
                rows = [(scale.source, language), *pairs]
                files[f"pairs/{part}/{title}.tsv"] = "".join("\t".join(row) + "\n" for row in rows)
            told = ", ".join(f"{count:,} of {Path(name).name}" for name, count in found.sources.items())
            notes.append(f"{title}: {told}; {found.tested:,} pairs left out that have a sentence of a test")
        return files, notes


def shares_of(scale: Scale) -> tuple[float, ...]:
    """Where the parts of the parallel text end, as shares of it."""
    return (*sorted(scale.amounts.values()), 1.0)


def _columns(bitext: Any) -> str:
    rows = zip(*(corpus.sentences for corpus in bitext), strict=True)
    lines = ["\t".join(bitext.languages), *("\t".join(" ".join(cell.split()) for cell in row) for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
