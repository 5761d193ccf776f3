"""Public corpora, downloaded once into the user's cache and verified.

A corpus is an archive of the public NLTK collection. The SHA-256 of each unpacked file is verified, not that of the
archive (which may be repacked with the same files). It is verified again whenever the corpus is requested, which also
covers files that the user put there. The checksums are those of the files that this project measures with;
CoNLL-2000's are also published by others. The Dutch files of CoNLL-2002 have no checksum, because they were not
available when the list was made.
"""

from __future__ import annotations

import hashlib
import logging
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from loglinear.errors import DataError, OptionError
from loglinear.system import cache_folder, temporary_folder

NLTK = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora"


@dataclass(frozen=True)
class PublicCorpus:
    """A corpus that can be fetched.

    Parameters
    ----------
    about : str
        What it is.
    licence : str
        Who made it and what it may be used for.
    url : str
        The archive, a zip file.
    files : dict from name to SHA-256
        The files wanted from it; an empty checksum takes the file as it comes.
    """

    about: str
    licence: str
    url: str
    files: dict[str, str]


PUBLIC: dict[str, PublicCorpus] = {
    "conll2000": PublicCorpus(
        "English chunks and tags (Wall Street Journal): train.txt, test.txt",
        "CoNLL-2000 shared task, as NLTK distributes it, without saying a licence",
        f"{NLTK}/conll2000.zip",
        {
            "train.txt": "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
            "test.txt": "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
        },
    ),
    "conll2002": PublicCorpus(
        "Spanish and Dutch entities: esp.train, esp.testa (dev), esp.testb, ned.*",
        "CoNLL-2002 shared task, as NLTK distributes it, without saying a licence",
        f"{NLTK}/conll2002.zip",
        {
            "esp.train": "a20d95cab7d88a19a86f8c1ad6329325c99fbd9529ed978cbd7e31d4b01b4008",
            "esp.testa": "85c17793b77881c53d19017d9d0f1e6fb98b7ddcab54a5f24b05ed1793103c87",
            "esp.testb": "1f8f7a392c6d4979a5592a5794eed43d7869b46da6851bbcde99714149f1d016",
            "ned.train": "",
            "ned.testa": "",
            "ned.testb": "",
        },
    ),
}


def corpora_cache() -> Path:
    """The folder with a subfolder for each downloaded corpus."""
    return cache_folder() / "corpora"


def folder_of(name: str) -> Path | None:
    """The folder that has all files of a corpus: its folder in the cache, or a subfolder made by unpacking."""
    top, files = corpora_cache() / name, public_corpus(name).files
    inner = sorted(path for path in top.iterdir() if path.is_dir()) if top.is_dir() else []
    return next((folder for folder in (top, *inner) if all((folder / file).is_file() for file in files)), None)


def wrong_files(name: str) -> list[str]:
    """The existing files of a corpus whose checksum is wrong."""
    folder = folder_of(name) or corpora_cache() / name
    known = {folder / file: checksum for file, checksum in public_corpus(name).files.items() if checksum}
    return [path.name for path in known if path.is_file() and _sha256(path.read_bytes()) != known[path]]


def wrong_content(name: str, files: list[str]) -> str:
    """The message for files of a corpus that have a wrong checksum."""
    them = ", ".join(files)
    return f"not the right content (by SHA-256): {them}; `loglinear data get {name} --again` fetches all files again"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def public_corpus(name: str) -> PublicCorpus:
    """The corpus of that name."""
    if name not in PUBLIC:
        raise OptionError(f"there is no corpus {name!r} to fetch; there are {', '.join(PUBLIC)}")
    return PUBLIC[name]


def get(name: str, again: bool = False) -> Path:
    """Download a corpus unless the cache has it (or always, with ``again``), and return its folder.

    The cache changes only if every downloaded file is correct. Files already in the cache are verified, and wrong ones
    are replaced only with ``again``.

    Raises
    ------
    DataError
        If the corpus cannot be downloaded (with instructions to do it by hand), or if a file has a wrong checksum.
    """
    corpus, folder = public_corpus(name), corpora_cache() / name
    here = folder_of(name)
    if not again:
        if wrong := wrong_files(name):
            raise DataError(wrong_content(name, wrong), str(here or folder))
        if here is not None:
            return here
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(f".{name}-", folder.parent) as scratch:
        archive, unpacked = scratch / "archive.zip", scratch / name
        _download(name, corpus, archive)
        unpacked.mkdir()
        _unpack(corpus, archive, unpacked)
        folder.mkdir(exist_ok=True)
        for file in corpus.files:
            os.replace(unpacked / file, folder / file)
    return folder


def _download(name: str, corpus: PublicCorpus, target: Path) -> None:
    import pooch

    pooch.get_logger().setLevel(logging.WARNING)
    try:
        pooch.retrieve(corpus.url, known_hash=None, fname=target.name, path=target.parent)
    except (OSError, ValueError) as error:
        files = ", ".join(corpus.files)
        raise DataError(
            f"{name} cannot be fetched from {corpus.url} ({_reason(error)}); fetch that file elsewhere and unpack it "
            f"({files}) into {corpora_cache() / name}, or name the folder that has them with --data"
        ) from None


def _reason(error: BaseException) -> str:
    """A short description of the root cause of an error."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {error}"[:120]


def _unpack(corpus: PublicCorpus, archive: Path, folder: Path) -> None:
    """Unpack the corpus' files, from any folder of the archive, and verify them."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = {Path(member).name: member for member in opened.namelist()}
            for name, checksum in corpus.files.items():
                if name not in members:
                    raise DataError(f"the archive has no file {name}", corpus.url)
                content = opened.read(members[name])
                actual = _sha256(content)
                if checksum and actual != checksum:
                    sums = f"SHA-256 {actual}, not {checksum}"
                    raise DataError(f"{name} is not the file that was expected ({sums}); nothing was kept", corpus.url)
                (folder / name).write_bytes(content)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise DataError(f"the download is not a zip archive ({error}); nothing was kept", corpus.url) from None
