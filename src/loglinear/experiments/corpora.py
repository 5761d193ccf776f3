"""The corpora of experiments: real ones where they are found, bundled and generated ones everywhere.

``conll2000``        chunks of CoNLL-2000, 22 labels, template ``chunking``
``pos``              parts of speech (Penn tags) of the English Web Treebank, about 50 labels, template ``pos``
``bundled``          chunks of the corpus that comes with the package
``generated:1e5``    chunks of generated sentences, with that many tokens in all
a column file        the user's own, label in the last column

Real corpora are looked for in the folder that LOGLINEAR_DATA names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loglinear.data import atomic_output, read_columns, write_columns
from loglinear.data.corpora.bundled import Rows, bundled_text
from loglinear.data.corpora.download import PUBLIC, corpora_cache, wrong_content, wrong_files
from loglinear.data.corpora.generator import generate_rows
from loglinear.errors import DataError, OptionError
from loglinear.evaluation.chunks import has_chunks
from loglinear.features.templates.sets import load_template
from loglinear.system import cache_warning

TASKS = ("conll2000", "pos", "bundled", "generated")
TEST_TOKENS = 50_000  # most tokens of a generated test file


@dataclass(frozen=True)
class Corpus:
    """A training and a test file, and the task on them.

    Parameters
    ----------
    name : str
    train, test : Path
    template : str
        Text of the template.
    metric : {"f1", "accuracy"}
        Chunk F1 where the labels are those of chunks.
    n_sentences, n_tokens, n_labels : int
        Of the training file.
    """

    name: str
    train: Path
    test: Path
    template: str
    metric: str
    n_sentences: int
    n_tokens: int
    n_labels: int


def corpora_folder() -> Path | None:
    """The folder that LOGLINEAR_DATA names; None if it is not set."""
    folder = os.environ.get("LOGLINEAR_DATA")
    return Path(folder) if folder else None


def has_conll2000() -> bool:
    """Whether LOGLINEAR_DATA has CoNLL-2000."""
    folder = corpora_folder()
    return folder is not None and (folder / "conll2000" / "train.txt").is_file()


def size_of(text: str) -> int:
    """A number of tokens, also written as 1e6."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not (100 <= number <= 1e9 and number == int(number)):
        raise OptionError(f"{text!r} is not a number of tokens; give a whole number from 100 to 1e9, as in 1e6")
    return int(number)


def prepare(task: str, folder: Path, template: str | None = None) -> Corpus:
    """The corpus of a task; files that have to be written go to ``folder``."""
    name, _, size = task.partition(":")
    if name not in TASKS:
        raise OptionError(f"task={task!r} is not known; choose from {', '.join(TASKS)} (or generated:TOKENS)")
    if size and name != "generated":
        raise OptionError(f"task={task!r}: only generated takes a size")
    if name == "generated":
        return generated(size_of(size or "1e5"), folder, template)
    if name == "conll2000":
        place = _real("conll2000", "train.txt", "test.txt")
        return described(name, place / "train.txt", place / "test.txt", template or "chunking")
    train, test = folder / f"{name}-train.txt", folder / f"{name}-test.txt"
    if name == "bundled":
        for path, split in ((train, "train"), (test, "test")):
            path.write_text(bundled_text(split, "chunk"), encoding="utf-8")
        return described(name, train, test, template or "chunking")
    place = _real("ewt", "ewt.train.conllu", "ewt.dev.conllu")
    for path, split in ((train, "train"), (test, "dev")):
        _write(path, _tagged_words(place / f"ewt.{split}.conllu"))
    return described(name, train, test, template or "pos")


def generated(n_tokens: int, folder: Path, template: str | None = None) -> Corpus:
    """Generated sentences with at least that many tokens in all, and others, at most as many, to test on."""
    train, test = (folder / f"generated-{n_tokens}-{part}.txt" for part in ("train", "test"))
    _write(train, _until(n_tokens, generate_rows(None, 1, "chunk")))
    _write(test, _until(min(n_tokens, TEST_TOKENS), generate_rows(None, 2, "chunk")))
    return described(f"generated:{n_tokens:.0e}".replace("e+0", "e"), train, test, template or "chunking")


def own(train: Path, test: Path, folder: Path, template: str | None = None) -> Corpus:
    """The user's own files, copied to ``folder`` as bare rows, which a plain script reads as we do."""
    corpora = [read_columns(path) for path in (train, test)]
    copies = [folder / f"own-{part}.txt" for part in ("train", "test")]
    widths = [corpus.n_columns for corpus in corpora]
    if widths[0] != widths[1] or widths[0] < 2:
        raise DataError(
            f"{train} has {widths[0]} columns, {test} {widths[1]}; give files with the same columns, labels last"
        )
    for corpus, copy in zip(corpora, copies, strict=True):
        with atomic_output(copy) as out:
            write_columns(replace(corpus, layout=None), out)
    return described(train.stem, copies[0], copies[1], template)


def described(name: str, train: Path, test: Path, template: str | None) -> Corpus:
    """Any column file with the label in its last column; without a template, ``ner`` for chunks, else ``pos``."""
    corpus = read_columns(train)
    labels = corpus.column(-1).values
    chunks = has_chunks(labels)
    text = str(load_template(template or ("ner" if chunks else "pos"), corpus.n_columns - 1))
    metric = "f1" if chunks else "accuracy"
    return Corpus(name, train, test, text, metric, corpus.n_sentences, corpus.n_tokens, len(labels))


def _real(name: str, *files: str) -> Path:
    """The folder of a real corpus."""
    folder = corpora_folder()
    if folder is None:
        raise DataError(
            f"the corpus {name} is not part of the package; set LOGLINEAR_DATA to the folder that holds {name}/, or "
            "use --task bundled or generated"
        )
    for file in files:
        if not (folder / name / file).is_file():
            raise DataError(
                f"there is no {folder / name / file}; LOGLINEAR_DATA must name the folder that holds {name}/"
            )
    return folder / name


def _tagged_words(path: Path) -> Iterator[Rows]:
    """Words and Penn tags of a CoNLL-U file."""
    sentence: Rows = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            fields = line.rstrip("\n").split("\t")
            if fields[0].isdecimal():
                sentence.append((fields[1].replace(" ", "_"), fields[4]))
            elif not line.strip() and sentence:
                yield sentence
                sentence = []
    if sentence:
        yield sentence


def _until(n_tokens: int, sentences: Iterable[Rows]) -> Iterator[Rows]:
    """Sentences until they have that many tokens."""
    for sentence in sentences:
        yield sentence
        n_tokens -= len(sentence)
        if n_tokens <= 0:
            return


def _write(path: Path, sentences: Iterable[Rows]) -> None:
    """Write a column file."""
    with atomic_output(path) as out:
        for sentence in sentences:
            out.write(("".join(" ".join(row) + "\n" for row in sentence) + "\n").encode())


# ----------------------------------------------------------------------------------------------------------------------
# Finding the papers' corpora: under the user's folder by their usual file names, or in the cache.
#
# conll2000        train.txt, test.txt with words, tags and chunks
# eng, esp, ned    NAME.train, NAME.testa, NAME.testb (CoNLL-2003 English, CoNLL-2002 Spanish and Dutch)
# craft, ptb, gum  craft15.PART.mrg, ptb.PART.mrg, gum.PART.mrg
# ptbdep, ewt      NAME.PART.conllu


FILES: dict[str, tuple[str, ...]] = {
    "conll2000": ("train.txt", "test.txt"),
    **{name: tuple(f"{name}.{part}" for part in ("train", "testa", "testb")) for name in ("eng", "esp", "ned")},
    "craft": ("craft15.train.mrg", "craft15.dev.mrg"),
    **{name: tuple(f"{name}.{part}.mrg" for part in ("train", "dev", "test")) for name in ("ptb", "gum")},
    "ptbdep": ("ptbdep.train.conllu", "ptbdep.dev.conllu"),
    "ewt": ("ewt.train.conllu", "ewt.dev.conllu"),
}
HEAD = 1 << 16  # bytes that are read to recognise a corpus


def _has_chunks(folder: Path) -> bool:
    """Whether train.txt has three columns, the last with chunks: other corpora use these file names too."""
    with open(folder / "train.txt", "rb") as file:
        rows = [line.split() for line in file.read(HEAD).splitlines()[:-1] if line.strip()]
    return all(len(row) == 3 for row in rows) and {b"B-NP", b"B-VP"} <= {row[2] for row in rows}


CHECKS: dict[str, Callable[[Path], bool]] = {"conll2000": _has_chunks}


def folders_under(folder: Path) -> Iterator[Path]:
    """The folder and all below it except hidden ones, the nearest first, in the same order on every machine.

    Links are followed, and each folder is visited once, so that circular links do no harm.
    """
    level, seen = [folder], set[tuple[int, int]]()
    while level:
        inner: list[Path] = []
        for place in level:
            try:
                state = os.stat(place)
                names = sorted(name for name in os.listdir(place) if not name.startswith("."))
            except OSError:  # no permission
                continue
            if (state.st_dev, state.st_ino) not in seen:
                seen.add((state.st_dev, state.st_ino))
                yield place
                inner += (path for name in names if os.path.isdir(path := place / name))
        level = inner


def find(folder: Path | None, names: Sequence[str]) -> dict[str, list[Path]]:
    """The files of the named corpora that are available: under ``folder``, else in the cache."""
    if folder is not None and not folder.is_dir():
        raise DataError("there is no such folder", str(folder))
    found: dict[str, list[Path]] = {}
    for place in (folder, corpora_cache()):
        if place is None or not place.is_dir():
            continue
        for below in folders_under(place):
            for name in names:
                if name not in found and all((below / file).is_file() for file in FILES[name]):
                    if name in CHECKS and not CHECKS[name](below):
                        continue
                    if place == corpora_cache():
                        _check_fetched(name, below)
                    found[name] = [below / file for file in FILES[name]]
    return {name: found[name] for name in names if name in found}


def _check_fetched(name: str, folder: Path) -> None:
    """Reject files of the cache that are damaged."""
    for public, corpus in PUBLIC.items():
        wrong = [file for file in wrong_files(public) if file in FILES[name]]
        if wrong and set(FILES[name]) <= set(corpus.files):
            raise DataError(wrong_content(public, wrong), str(folder))


def missing(names: Sequence[str], folder: Path | None) -> DataError:
    """The error that names the files that were looked for, and says which of them can be fetched."""
    wanted = ", or ".join(f"{', '.join(FILES[name])} ({name})" for name in names)
    public = [name for name, corpus in PUBLIC.items() if any(set(FILES[n]) & set(corpus.files) for n in names)]
    remedy = f"; `loglinear data get {public[0]}` fetches them" if public else ""
    if public and (wrong := wrong_files(public[0])):
        remedy = f"; {', '.join(wrong)} in the cache is not right, `loglinear data get {public[0]} --again` fetches it"
    warning = f"; {cache_warning()}" if cache_warning() else ""
    place = " and ".join(map(str, filter(None, (folder, corpora_cache()))))
    return DataError(f"none of the corpora is here; looked for {wanted}{remedy}{warning}", place)
