"""The file that holds a model: one of the user's, or a temporary one that goes with its owner."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

DATA = "__FILE_RESOURCE_DATA__"  # the file's content, in a pickle


class FileResource:
    """A file with a name, made when it is needed.

    Parameters
    ----------
    filename : str or path, optional
        A file of the user's, which stays; a temporary one if not given.
    keep_tempfiles : bool
        Whether temporary files stay, too.
    suffix, prefix : str
        Of temporary files.

    Attributes
    ----------
    name : str or None
        None as long as there is no file.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str] | None = None,
        keep_tempfiles: bool = False,
        suffix: str = "",
        prefix: str = "",
    ) -> None:
        self.name = None if filename is None else os.fspath(filename)
        self.auto = filename is None
        self.keep_tempfiles, self.suffix, self.prefix = keep_tempfiles, suffix, prefix

    def ensure_name(self) -> str:
        """The file's name; makes the temporary file, if there is no file."""
        if self.name is None:
            descriptor, self.name = tempfile.mkstemp(self.suffix, self.prefix)
            os.close(descriptor)
            if not self.keep_tempfiles:  # it goes with this object, at the end of the process at the latest
                weakref.finalize(self, _remove, self.name, os.getpid())
        return self.name

    def cleanup(self) -> None:
        """Remove the temporary file."""
        if self.name is not None and self.auto and not self.keep_tempfiles:
            Path(self.name).unlink(missing_ok=True)
            self.name = None

    def refresh(self) -> None:
        """A new temporary file in place of the old one."""
        self.cleanup()
        self.ensure_name()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if self.auto:
            if self.name is not None and Path(self.name).exists():
                state[DATA] = Path(self.name).read_bytes()
            state["name"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Also of what the real package pickled."""
        known = {"auto": True, "name": None, "keep_tempfiles": False, "suffix": "", "prefix": "", **state}
        data = known.pop(DATA, None)
        known.pop("fd", None)
        if data is not None:
            known["name"] = None
        vars(self).update(known)
        if data is not None:
            Path(self.ensure_name()).write_bytes(data)


def _remove(name: str, process: int) -> None:
    """Remove a temporary file in the process that made it."""
    if os.getpid() == process:
        Path(name).unlink(missing_ok=True)
