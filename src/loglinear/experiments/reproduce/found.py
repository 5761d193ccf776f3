"""Where the papers' corpora are: under the user's folder by their usual file names, or in the cache.

conll2000        train.txt, test.txt with words, tags and chunks
eng, esp, ned    NAME.train, NAME.testa, NAME.testb (CoNLL-2003 English, CoNLL-2002 Spanish and Dutch)
craft, ptb       craft15.PART.mrg, ptb.PART.mrg
ptbdep, ewt      NAME.PART.conllu
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from loglinear.data.download import PUBLIC, corpora_cache, wrong_content, wrong_files
from loglinear.errors import DataError
from loglinear.user_cache import passed_over

FILES: dict[str, tuple[str, ...]] = {
    "conll2000": ("train.txt", "test.txt"),
    **{name: tuple(f"{name}.{part}" for part in ("train", "testa", "testb")) for name in ("eng", "esp", "ned")},
    "craft": ("craft15.train.mrg", "craft15.dev.mrg"),
    "ptb": ("ptb.train.mrg", "ptb.dev.mrg", "ptb.test.mrg"),
    "ptbdep": ("ptbdep.train.conllu", "ptbdep.dev.conllu"),
    "ewt": ("ewt.train.conllu", "ewt.dev.conllu"),
}
HEAD = 1 << 16  # bytes that tell one corpus from another with the same file names


def _has_chunks(folder: Path) -> bool:
    """Whether train.txt has three columns, the last of chunks: others use these file names too."""
    with open(folder / "train.txt", "rb") as file:
        rows = [line.split() for line in file.read(HEAD).splitlines()[:-1] if line.strip()]
    return all(len(row) == 3 for row in rows) and {b"B-NP", b"B-VP"} <= {row[2] for row in rows}


CHECKS: dict[str, Callable[[Path], bool]] = {"conll2000": _has_chunks}


def folders_under(folder: Path) -> Iterator[Path]:
    """The folder and all below it, the nearest first, hidden ones left out; the same order everywhere.

    Links are followed, and each folder is looked into once: a link to where it has been leads nowhere.
    """
    level, seen = [folder], set[tuple[int, int]]()
    while level:
        inner: list[Path] = []
        for each in level:
            try:
                state = os.stat(each)
                names = sorted(name for name in os.listdir(each) if not name.startswith("."))
            except OSError:  # it may not be looked into
                continue
            if (state.st_dev, state.st_ino) not in seen:
                seen.add((state.st_dev, state.st_ino))
                yield each
                inner += (path for name in names if os.path.isdir(path := each / name))
        level = inner


def find(folder: Path | None, names: Sequence[str]) -> dict[str, list[Path]]:
    """The files of those of the named corpora that are there: under ``folder``, else among the fetched ones."""
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
    """Refuse files of the cache that are not what they should be."""
    for public, corpus in PUBLIC.items():
        wrong = [file for file in wrong_files(public) if file in FILES[name]]
        if wrong and set(FILES[name]) <= set(corpus.files):
            raise DataError(wrong_content(public, wrong), str(folder))


def missing(names: Sequence[str], folder: Path | None) -> DataError:
    """The error that says which files are looked for, and which of them can be fetched."""
    wanted = ", or ".join(f"{', '.join(FILES[name])} ({name})" for name in names)
    public = [each for each, corpus in PUBLIC.items() if any(set(FILES[n]) & set(corpus.files) for n in names)]
    remedy = f"; `loglinear data get {public[0]}` fetches them" if public else ""
    if public and (wrong := wrong_files(public[0])):
        remedy = f"; {', '.join(wrong)} in the cache is not right, `loglinear data get {public[0]} --again` fetches it"
    said = f"; {passed_over()}" if passed_over() else ""
    place = " and ".join(map(str, filter(None, (folder, corpora_cache()))))
    return DataError(f"none of the corpora is here; looked for {wanted}{remedy}{said}", place)
