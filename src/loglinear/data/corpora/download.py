"""Public corpora, fetched once into the user's cache and checked.

A corpus comes as an archive of the public NLTK collection. What is checked is what is used: the SHA-256 of each file
after unpacking (an archive may be repacked around the same files), and again whenever it is asked for, so that files
brought by hand are checked too. The checksums are those of the files that this project measures with; CoNLL-2000's are
also published by others. The Dutch files of CoNLL-2002 were not there to be looked at, and are taken as the archive has
them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from loglinear.errors import DataError, OptionError
from loglinear.system import cache_folder

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
    """The folder that fetched corpora are in, each in one of its own."""
    return cache_folder() / "corpora"


def folder_of(name: str) -> Path | None:
    """The folder that has all files of a corpus: its own in the cache, or one in that, made by unpacking."""
    own, files = corpora_cache() / name, public_corpus(name).files
    inner = sorted(path for path in own.iterdir() if path.is_dir()) if own.is_dir() else []
    return next((folder for folder in (own, *inner) if all((folder / file).is_file() for file in files)), None)


def wrong_files(name: str) -> list[str]:
    """Those files of a corpus that are here and have another checksum than they should."""
    folder = folder_of(name) or corpora_cache() / name
    known = {file: checksum for file, checksum in public_corpus(name).files.items() if checksum}
    here = [file for file in known if (folder / file).is_file()]
    return [file for file in here if _sha256((folder / file).read_bytes()) != known[file]]


def wrong_content(name: str, files: list[str]) -> str:
    """What to say of files of a corpus that have another content."""
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
    """Fetch a corpus unless it is here (or ``again``), and give its folder.

    Nothing is left behind unless every file is there and right. What is here already is checked, and a file that is not
    right is never replaced unless ``again`` says so.

    Raises
    ------
    DataError
        If it cannot be fetched, saying from where and to where to bring it by hand; or if a file is not the right one.
    """
    corpus, folder = public_corpus(name), corpora_cache() / name
    here = folder_of(name)
    if not again:
        if wrong := wrong_files(name):
            raise DataError(wrong_content(name, wrong), str(here or folder))
        if here is not None:
            return here
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as scratch:
        archive, unpacked = Path(scratch) / "archive.zip", Path(scratch) / name
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
    """The last cause of an error, in a few words."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {error}"[:120]


def _unpack(corpus: PublicCorpus, archive: Path, folder: Path) -> None:
    """The wanted files of the archive, whichever folder of it they are in, checked."""
    try:
        with zipfile.ZipFile(archive) as opened:
            members = {Path(member).name: member for member in opened.namelist()}
            for name, checksum in corpus.files.items():
                if name not in members:
                    raise DataError(f"the archive has no file {name}", corpus.url)
                content = opened.read(members[name])
                found = _sha256(content)
                if checksum and found != checksum:
                    raise DataError(
                        f"{name} is not the file that was expected (SHA-256 {found}, not {checksum}); nothing was kept",
                        corpus.url,
                    )
                (folder / name).write_bytes(content)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise DataError(f"the download is not a zip archive ({error}); nothing was kept", corpus.url) from None
