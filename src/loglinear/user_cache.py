"""Where the package keeps what it can make or fetch again: compiled kernels, corpora."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def passed_over() -> str:
    """What to say when ``LOGLINEAR_CACHE`` names what cannot be used; nothing when all is well."""
    wanted = os.environ.get("LOGLINEAR_CACHE")
    if not wanted or cache_folder() == Path(wanted):
        return ""
    return f"LOGLINEAR_CACHE={wanted} is no folder that can be written to; {cache_folder()} is used instead"


@cache
def cache_folder() -> Path:
    """The folder: ``LOGLINEAR_CACHE``, else the user's cache, else a temporary folder."""
    candidates = []
    if os.environ.get("LOGLINEAR_CACHE"):
        candidates.append(Path(os.environ["LOGLINEAR_CACHE"]))
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    with suppress(RuntimeError):  # no home folder
        candidates.append((Path(user_cache) if user_cache else Path.home() / ".cache") / "loglinear")
    candidates.append(Path(tempfile.gettempdir()) / f"loglinear-{os.getuid() if hasattr(os, 'getuid') else 'user'}")
    for candidate in candidates:
        if _is_writable(candidate):
            return candidate
    return Path(tempfile.mkdtemp(prefix="loglinear-"))
