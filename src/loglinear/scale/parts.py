"""The files that a glob or a folder names, and where the output of each goes: a file of the same name in a folder.

A folder may also be an encoded corpus (:mod:`loglinear.scale.encoded`), which is one source.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

from loglinear.errors import OptionError
from loglinear.wording import how_many

TABLES = (".parquet", ".arrow", ".feather")
EXISTING = ("refuse", "overwrite", "keep")
MANIFEST, CORPUS, ENCODING = FILES_ENCODED = "manifest.json", "corpus", "encoding"  # of an encoded corpus


def is_encoded(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder that ``loglinear encode`` has written."""
    return os.path.isfile(os.path.join(path, MANIFEST))


def parts_of(path: str) -> list[str] | None:
    """The files that a glob (``in/*.parquet``, with ``**`` for any folders) or a folder names, in the order of names.

    None if the path is that of a file, a pipe, an encoded corpus or brat's folder (with ``.ann`` files). Of a folder,
    files whose names begin with a dot or an underscore, as Spark's ``_SUCCESS`` does, are left out; if it has Parquet
    or Arrow files, so are all others.
    """
    if is_encoded(path):
        return None
    if os.path.isdir(path):
        names = sorted(name for name in os.listdir(path) if not name.startswith((".", "_")))
        files = [each for each in (os.path.join(path, name) for name in names) if os.path.isfile(each)]
        if any(each.endswith(".ann") for each in files):
            return None
        return [each for each in files if each.lower().endswith(TABLES)] or files
    if os.path.lexists(path) or not glob.has_magic(path):
        return None
    return sorted(each for each in glob.glob(path, recursive=True) if os.path.isfile(each))


def targets(parts: Sequence[str], folder: str) -> list[str]:
    """Where the output of each part goes; two of the same name are an error."""
    seen = dict[str, str]()
    for part in parts:
        name = os.path.basename(part)
        if name in seen:
            raise OptionError(
                f"{seen[name]} and {part} have the same name, and their outputs would be one file of {folder}; label "
                "them by two commands"
            )
        seen[name] = part
    return [os.path.join(folder, name) for name in seen]


def left_to_do(parts: Sequence[str], folder: str, existing: str) -> list[tuple[str, str]]:
    """The parts to label, each with its target, by what is to become of the targets that exist."""
    pairs = list(zip(parts, targets(parts, folder), strict=True))
    there = [target for _, target in pairs if os.path.lexists(target)]
    if existing == "keep":
        return [(part, target) for part, target in pairs if target not in set(there)]
    if there and existing == "refuse":
        others = f" and {how_many(len(there) - 1, 'other')} are" if len(there) > 1 else " is"
        raise OptionError(
            f"{there[0]}{others} there already; --existing keep labels the other files only, and --existing overwrite "
            "all of them"
        )
    return pairs
