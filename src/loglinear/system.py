"""The machine: threads for kernels that release the GIL, memory, and a folder for files that can be made again."""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from loglinear import ending
from loglinear.errors import OptionError

A = TypeVar("A")
B = TypeVar("B")


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count(threads: int | None) -> int:
    """The number of threads that a user's ``threads`` asks for: all cores if None."""
    if threads is None:
        return available_cores()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise OptionError(f"threads={threads!r} must be a whole number from 1 up, or None for all cores")
    return threads


def in_threads(function: Callable[[A], B], items: Iterable[A], n_threads: int) -> list[B]:
    """``[function(x) for x in items]`` on up to ``n_threads`` threads, of which the caller's is one.

    A caller that only waited would often leave its core idle for some milliseconds, with two threads on another one.
    An item that fails keeps later ones from being started; of several, the first one's error is raised.
    """
    items = list(items)
    n_threads = min(n_threads, len(items))
    if n_threads <= 1:
        return [function(item) for item in items]
    results, errors, waiting = dict[int, B](), dict[int, BaseException](), SimpleQueue[int | None]()
    for k in (*range(len(items)), *[None] * n_threads):
        waiting.put(k)

    def work() -> None:
        while (k := waiting.get()) is not None and not errors:
            try:
                results[k] = function(items[k])
            except BaseException as error:  # raised below
                errors[k] = error

    with ThreadPoolExecutor(n_threads - 1) as pool:
        for _ in range(n_threads - 1):
            pool.submit(work)
        work()
    if errors:
        raise errors[min(errors)]
    return [results[k] for k in range(len(items))]


@contextmanager
def without_current_folder() -> Iterator[None]:
    """Keep Python processes that are started in this block from importing what lies in the current folder."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYTHONSAFEPATH", None)
        else:
            os.environ["PYTHONSAFEPATH"] = before


# ----------------------------------------------------------------------------------------------------------------------
# Private folders and files: what is read from them may be run, so nobody else may have written it.

_HAS_OWNERS = hasattr(os, "geteuid")


@cache
def _is_own_group(group: int) -> bool:
    """Whether a group is this user's alone, as where every user has one."""
    try:
        import grp
        import pwd

        user, found = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except (ImportError, KeyError):
        return False
    return found.gr_name == user and set(found.gr_mem) <= {user}


def _others_may_write(status: os.stat_result) -> bool:
    by_group = bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)
    return by_group or bool(status.st_mode & stat.S_IWOTH)


def _is_ours(status: os.stat_result) -> bool:
    return not _HAS_OWNERS or status.st_uid == os.geteuid()


def _may_be_swapped(path: Path) -> bool:
    """Whether someone else can put something in the place of ``path``, or of a folder on the way to it.

    Folders of root's count as this user's. In a sticky one, as /tmp is, nobody can move what is not theirs.
    """
    if not _HAS_OWNERS:
        return False
    absolute = Path(os.path.abspath(path))
    for parent in {*absolute.parents, *absolute.resolve().parents}:
        status = parent.lstat()
        if status.st_uid not in (0, os.geteuid()):
            return True
        open_to_others = not stat.S_ISLNK(status.st_mode) and _others_may_write(status)
        if open_to_others and not status.st_mode & stat.S_ISVTX:
            return True
    return False


def why_not_private(folder: Path) -> str:
    """Why a folder cannot hold what only this user may write, or an empty string; a missing one is made."""
    try:
        missing = [folder]
        while not os.path.lexists(missing[-1]):
            missing.append(missing[-1].parent)
        if _may_be_swapped(folder if len(missing) == 1 else missing[-1] / "x"):
            return "lies in a folder that others can write to"
        for each in reversed(missing[:-1]):
            with suppress(FileExistsError):  # another process was quicker
                os.mkdir(each, 0o700)
                os.chmod(each, 0o700)  # the umask may have taken more away
        status = folder.lstat()
        if stat.S_ISLNK(status.st_mode):
            return "is a link"
        if not stat.S_ISDIR(status.st_mode):
            return "is not a folder"
        if not _is_ours(status):
            return "belongs to another user"
        if _HAS_OWNERS and _others_may_write(status):
            return "can be written to by others (chmod go-w)"
    except (OSError, RuntimeError, ValueError):  # a loop of links, a null character
        return "is not a writable folder"
    return ""


def replace_file(file: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file, which only this user can read by default; who reads it meanwhile finds the old or the new one."""
    beside = file.with_name(f"{file.name}.{secrets.token_hex(8)}.tmp")
    with ending.removing(beside):
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        os.replace(beside, file)


def read_private(file: Path) -> bytes:
    """The content of a file; one that someone else can have written is a :class:`PermissionError`."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(file, flags), "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or (_HAS_OWNERS and _others_may_write(status)):
            raise PermissionError(f"{file} is not a file that only this user can write to")
        return stream.read()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time into the block; where folders cannot be locked, all of them."""
    handle = None
    with suppress(ImportError, OSError):
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


# ----------------------------------------------------------------------------------------------------------------------
# Memory: what a request would need is compared with what there is before any of it is allocated, since systems that
# promise more than they have end a process without a word.

MEMORY = "LOGLINEAR_MEMORY"
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def _limits() -> Iterator[int]:
    """The bytes that the machine, a control group and the shell's ``ulimit -v`` leave to a process."""
    with suppress(AttributeError, ValueError, OSError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for place in _CGROUPS:
        with suppress(OSError, ValueError):  # ValueError: "max", no limit
            yield int(Path(place).read_text())
    with suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            yield soft


def memory() -> int:
    """Bytes that this process may use: ``LOGLINEAR_MEMORY`` if it is set, else what machine and control group have."""
    if given := os.environ.get(MEMORY):
        match = re.fullmatch(r"(\d{1,12})([kMGT]?)", given, re.ASCII)
        if match is None:
            raise OptionError(f"{MEMORY}={given} must be a number of bytes, such as 500M or 16G")
        return int(match[1]) * _UNITS[match[2]]
    return min(_limits(), default=2**63 - 1)


def size_of(n_bytes: float) -> str:
    """A number of bytes as text: ``3.2 GB``."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if n_bytes < 1000 or unit == "PB":
            break
        n_bytes /= 1000
    return f"{n_bytes:,.0f} {unit}" if unit == "bytes" or n_bytes >= 100 else f"{n_bytes:.2g} {unit}"


def too_large(n_bytes: float) -> str:
    """What is wrong with a request for ``n_bytes``, and how to allow it; empty if there is as much memory."""
    if n_bytes < 10**8 or n_bytes <= (limit := memory()):  # so little is not worth a look at the machine
        return ""
    return (
        f"needs about {size_of(n_bytes)} of memory, but this process may use {size_of(limit)} "
        f"(what the machine has; to allow more, set {MEMORY}, as in {MEMORY}={max(1, math.ceil(n_bytes / 1e9))}G)"
    )


def check_memory(n_bytes: float, what: str, remedy: str = "") -> None:
    """Refuse, as an :class:`OptionError`, what would take more than :func:`memory`; ``what`` begins the message."""
    if wrong := too_large(n_bytes):
        raise OptionError(f"{what} {wrong}{'; ' if remedy else ''}{remedy}")


# ----------------------------------------------------------------------------------------------------------------------
# The cache: compiled kernels, downloaded corpora.


def _why_not(folder: Path) -> str:
    """Why a folder cannot be the cache, or an empty string."""
    reason = why_not_private(folder)
    if reason:
        return reason
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError:
        return "is not a writable folder"


def cache_warning() -> str:
    """A warning if the folder that ``LOGLINEAR_CACHE`` names, or the user's own, is there but not used; else empty."""
    wanted = os.environ.get("LOGLINEAR_CACHE", "")
    if not wanted and not any(map(os.path.lexists, _users_caches())):
        return ""
    first = _candidates()[0]
    if cache_folder() == first:
        return ""
    name = f"LOGLINEAR_CACHE={wanted}" if wanted else str(first)
    return f"{name} {_why_not(first)}; using {cache_folder()}"


def _users_caches() -> list[Path]:
    """The user's cache folder; none if there is no absolute one, as the XDG specification has it."""
    with suppress(RuntimeError):  # no home folder
        named = (os.environ.get(name) or "" for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"))
        base = next((Path(name) for name in named if os.path.isabs(name)), None) or Path.home() / ".cache"
        return [base / "loglinear"] if base.is_absolute() else []
    return []


def _candidates() -> list[Path]:
    own = os.environ.get("LOGLINEAR_CACHE")
    user = os.geteuid() if _HAS_OWNERS else "user"
    named = [Path(os.path.abspath(own))] if own else []
    return [*named, *_users_caches(), Path(tempfile.gettempdir()) / f"loglinear-{user}"]


@cache
def cache_folder() -> Path:
    """``LOGLINEAR_CACHE`` if it is set, else the user's cache folder, else one in the temporary folder.

    A folder that is a link, or that someone else owns, can write to or could replace, is not used. Where there is no
    other one, the cache is a new folder that lasts as long as this process.
    """
    for candidate in _candidates():
        if not _why_not(candidate):
            return candidate
    folder = Path(tempfile.mkdtemp(prefix="loglinear-"))
    ending.at_exit(partial(shutil.rmtree, folder, ignore_errors=True))
    return folder
