"""The machine: threads for kernels that release the GIL, memory, and a folder for files that can be made again."""

from __future__ import annotations

import io
import math
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

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
    from concurrent.futures import ThreadPoolExecutor
    from queue import SimpleQueue

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
        with suppress(RuntimeError):  # no more threads to be had: those that there are do it all
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


def read_private(file: Path) -> bytes:
    """The content of a file; one that someone else can have written is a :class:`PermissionError`."""
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(file, flags), "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or (_HAS_OWNERS and _others_may_write(status)):
            raise PermissionError(f"{file} is not a file that only this user can write to")
        return stream.read()


# ----------------------------------------------------------------------------------------------------------------------
# Files that are there whole or not at all. What a killed process leaves behind is recognised by its lock, which ended
# with the process, and is removed by the next one that writes there.

_SLOTS = 8  # names for what is being written in a file's place: so many processes can write it at once without others
_HAS_LOCKS = os.name == "posix"
_LONGEST = 200  # bytes of a file's name that stand in such a name; systems take 255


class WriteError(OSError):
    """A file could not be written; ``filename`` is the one that was asked for."""


@contextmanager
def replacing(file: Path, mode: int | None = None, durable: bool = True) -> Iterator[BinaryIO]:
    """A stream whose content is that of ``file`` when the block has succeeded: who reads it finds the old or the new.

    Parameters
    ----------
    file : Path
        Links are replaced, not followed.
    mode : int, optional
        The new file's permissions; by default those of the old one, else what the umask leaves.
    durable : bool
        The content, too, is on the disk before the name is: neither is lost with the power.

    Raises
    ------
    WriteError
        The disk is full, the folder is read-only or has gone.
    """
    with _naming(file):
        if mode is None and file.exists():
            mode = stat.S_IMODE(file.stat().st_mode)
        descriptor, beside = _place_beside(file, 0o666 if mode is None else 0o600)
        lock = os.dup(descriptor) if _HAS_LOCKS else None  # holds the lock until the file has its name
    discard = partial(_discard, beside, lock)
    with ending.before_forced_end(discard):
        try:
            with cast(BinaryIO, io.BufferedWriter(_Writer(descriptor, file))) as stream:
                yield stream
                with _naming(file):
                    stream.flush()
                    if mode is not None:
                        os.chmod(beside, mode)
                    if durable:
                        os.fsync(descriptor)
            with _naming(file):
                os.replace(beside, file)
                if durable and os.name == "posix":
                    _flush_folder(file.parent)
        finally:
            discard()
            if lock is not None:
                os.close(lock)


def _discard(beside: Path, lock: int | None) -> None:
    """Remove what was not renamed; after that, another process may have a file of this name."""
    if lock is None or _is_at(lock, beside):
        ending.remove(beside)


def _flush_folder(folder: Path) -> None:
    """Have the names of its files outlive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(file: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file, which only this user can read by default; who reads it meanwhile finds the old or the new one."""
    with replacing(file, mode, durable=False) as stream:
        stream.write(data)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Make an error of the system's one about ``file``."""
    try:
        yield
    except WriteError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise WriteError(getattr(error, "errno", None) or 0, reason, str(file)) from error


def check_file(path: str) -> None:
    """Reject a file that could not be written, before hours are spent on what will be in it."""
    target = os.path.realpath(path)  # links are followed, not replaced
    try:
        status = os.stat(target)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # a link to itself, a name that is too long
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"{path}: cannot be written: {reason}; name another file") from None
    else:
        if stat.S_ISDIR(status.st_mode):
            raise OptionError(f"{path} is a folder; name the file to write")
        if not os.access(target, os.W_OK):
            raise OptionError(f"{path} may not be written: it is read-only; name another file")
        if not stat.S_ISREG(status.st_mode):  # a device or a pipe, written to as it is
            return
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        link = f", where {path} is a link to" if os.path.islink(path) else ""
        raise OptionError(
            f"{path}: there is no folder {folder if link else os.path.dirname(path)}{link}; create it first"
        )
    check_writable_folder(path, folder)


def check_writable_folder(path: str, folder: str) -> None:
    """Reject a folder, of the output ``path``, that no file can be made in."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OptionError(f"{path}: cannot write to {folder}: {error.strerror}; choose another folder") from None


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """:func:`replacing` for what a user names: links are followed, and devices and pipes written to as they are."""
    named = Path(path)
    with _naming(named):
        target = Path(os.path.realpath(named))
        direct = target.exists() and not target.is_file()
        descriptor = os.open(target, os.O_WRONLY) if direct else -1
    with cast(BinaryIO, io.BufferedWriter(_Writer(descriptor, named))) if direct else replacing(target) as stream:
        yield stream


class _Writer(io.FileIO):
    """A file being written, whose errors name the file that it will be."""

    def __init__(self, descriptor: int, file: Path) -> None:
        super().__init__(descriptor, "wb")
        self._file = file

    def write(self, data: Any) -> int:
        with _naming(self._file):
            return super().write(data)


def _place_beside(file: Path, mode: int) -> tuple[int, Path]:
    """A new file beside ``file``, open and locked, in the place of one that a killed process has left, if there is."""
    name = os.fsencode(file.name)[:_LONGEST].decode("utf-8", "ignore")
    slots = [str(slot) for slot in range(_SLOTS)] if _HAS_LOCKS else []
    while True:
        slot = slots.pop(0) if slots else os.urandom(8).hex()
        beside = file.with_name(f".{name}.loglinear-{slot}.tmp")
        remove_abandoned(beside)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(beside, flags, mode)
        except FileExistsError:  # another process is writing, or it is somebody else's
            continue
        if _lock(descriptor) is not False and _is_at(descriptor, beside):
            return descriptor, beside
        os.close(descriptor)  # removed as a leftover between two lines


def remove_abandoned(path: Path) -> None:
    """Remove a file or folder of this user's that the process which made it cannot remove any more.

    Whoever makes it locks it; where there are no locks, it stays.
    """
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        try:
            # With the lock, and with the path naming what is locked, nobody else removes or renames it.
            if _is_ours(os.fstat(descriptor)) and _lock(descriptor) and _is_at(descriptor, path):
                ending.remove(path)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Lock a file or folder until it is closed: whether it was free; None where there are no locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the path is that of an open file or folder."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    return False


@contextmanager
def temporary_folder(prefix: str = "loglinear-", within: Path | None = None) -> Iterator[Path]:
    """A new folder for this block alone; those that killed processes have left there are removed."""
    folder, descriptor = _new_folder(prefix, within)
    try:
        with ending.removing(folder):
            yield folder
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _new_folder(prefix: str, within: Path | None = None) -> tuple[Path, int | None]:
    """A new folder and, where there are locks, the descriptor that holds its lock."""
    import tempfile

    parent = Path(tempfile.gettempdir() if within is None else within)
    for abandoned in parent.glob(f"{prefix}*.tmp"):
        if abandoned.is_dir():
            remove_abandoned(abandoned)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, suffix=".tmp", dir=parent))
        if not _HAS_LOCKS:
            return folder, None
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # removed as a leftover between two lines
            continue
        if _lock(descriptor) is not False and _is_at(descriptor, folder):
            return folder, descriptor
        os.close(descriptor)


def replace_folder(folder: Path, new: Path) -> None:
    """Give ``new`` the name of a folder; who opens that finds the old one or the new one.

    The old one is then at ``new``, which should be in a :func:`temporary_folder` beside it. Systems that cannot
    exchange two names have a moment without the folder.
    """
    with _naming(folder):
        if os.name == "posix":
            _flush_folder(new)
        try:
            os.rename(new, folder)  # there is none, or an empty one
        except OSError:
            if not folder.is_dir():
                raise
            if not _exchanged(folder, new):
                aside = new.with_name(f"{new.name}.old")
                os.rename(folder, aside)
                os.rename(new, folder)
        if os.name == "posix":
            _flush_folder(folder.parent)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange the names of two files or folders at once, where the system can."""
    import ctypes

    names = os.fsencode(one), os.fsencode(other)
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux; RENAME_SWAP of macOS
    try:
        libc = ctypes.CDLL(None)
        if sys.platform == "darwin":
            return bool(libc.renamex_np(*names, exchange) == 0)
        return bool(libc.renameat2(here, names[0], here, names[1], exchange) == 0)
    except (AttributeError, OSError, TypeError):  # another system, or an old C library
        return False


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
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_BYTES = re.compile(r"(\d{1,15}(?:\.\d{1,15})?(?:e\d{1,2})?) ?(?:([kmgt])(i?))?b?", re.ASCII | re.IGNORECASE)
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
        return bytes_of(given, MEMORY)
    return min(_limits(), default=2**63 - 1)


def bytes_of(given: str, name: str) -> int:
    """A number of bytes as people write it: ``500M``, ``1.5 GB``, ``2e9``, or in powers of 1024 ``2GiB``.

    Anything else is an error of the option ``name``.
    """
    match = _BYTES.fullmatch(given.strip())
    if match is None:
        raise OptionError(f"{name}={given} must be a number of bytes, such as 500M or 16G")
    number, unit, binary = match.groups("")
    return round(float(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])


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
        import tempfile

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
    import tempfile

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
    folder, _ = _new_folder("loglinear-")  # locked as long as the process lasts
    ending.at_exit(partial(ending.remove, folder))
    return folder
