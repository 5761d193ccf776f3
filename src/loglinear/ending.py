"""The end of a process, also one that a signal forces: what is half-written is removed, what was learnt is kept.

Normally ``with`` and ``finally`` clean up, in the main thread. While that thread is inside a kernel, which may last
minutes, Python runs no handler of signals there, and no cleaning up. Kernels release the GIL, though, so another thread
can act: the one of :func:`watching_signals`. If the main thread has not come to an end soon after SIGTERM or a second
Ctrl-C, it does what was registered here for the end, the newest first, and ends the process:

    with removing(file): ...          a file or folder that must not stay behind
    with before_forced_end(action):   writing the checkpoint, ending child processes
"""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

GRACE = 1.0  # seconds that the main thread has to end by itself

_actions: dict[object, Callable[[], object]] = {}
_noted: set[int] = set()
_heard = threading.Event()  # a signal has arrived
_asked, _under_way = threading.Event(), threading.Event()  # the end: asked for, being forced
_watching = False
_ENOUGH = b"\0"  # no signal's number


@contextmanager
def before_forced_end(action: Callable[[], object]) -> Iterator[None]:
    """Have ``action`` called if the process is forced to end in this block, on another thread than this one."""
    key = object()
    _actions[key] = action
    try:
        yield
    finally:
        _actions.pop(key, None)


@contextmanager
def removing(path: Path) -> Iterator[None]:
    """Remove a file or folder when the block ends in whatever way; it may have been renamed, or not been made."""
    with before_forced_end(partial(remove, path)):
        try:
            yield
        finally:
            remove(path)


def at_exit(action: Callable[[], object]) -> None:
    """Have ``action`` called at the end of the process, forced or not."""
    _actions[object()] = action
    atexit.register(action)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there and can be removed."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def note(number: int) -> None:
    """Called by handlers of signals: one that asks this process to end has arrived."""
    _noted.add(number)


def status() -> int:
    """The exit status of a process that ends because of a signal: 128 + its number, Ctrl-C's if there was none."""
    return 128 + (signal.SIGTERM if signal.SIGTERM in _noted else signal.SIGINT)


def is_asked() -> bool:
    """Whether a signal has asked this process to end; waits a moment for the thread that hears of it."""
    return bool(_noted) or (_watching and _heard.wait(0.05))


def is_watched() -> bool:
    """Whether a thread sees to it that a second Ctrl-C ends the process."""
    return _watching


def force_end(exit_status: int) -> None:
    """Do what was registered for the end, and end the process at once."""
    _under_way.set()
    while _actions:
        with suppress(Exception):  # the rest must be done, too
            _actions.popitem()[1]()
    os._exit(exit_status)


@contextmanager
def watching_signals() -> Iterator[None]:
    """End this process soon after SIGTERM or a second Ctrl-C in this block, even if the main thread cannot.

    SIGTERM is a KeyboardInterrupt in the main thread, as Ctrl-C is, unless something else handles it. A signal that is
    ignored stays so.
    """
    global _watching
    if os.name != "posix" or threading.current_thread() is not threading.main_thread() or _watching:
        yield
        return
    _noted.clear()
    _heard.clear()
    heard, told = os.pipe()
    os.set_blocking(told, False)
    handler, descriptor = signal.getsignal(signal.SIGTERM), signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    if handler is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)
    watcher = threading.Thread(target=_watch, args=(heard,), name="signals", daemon=True)
    try:
        watcher.start()
    except RuntimeError:  # no thread to be had; what ends the process is then the handler alone
        _stop_watching(handler, descriptor, heard, told)
        yield
        return
    _watching = True
    sys.unraisablehook, unraisable = _raise_again, sys.unraisablehook
    try:
        yield
    finally:
        if not (_noted or _heard.is_set()):
            sys.unraisablehook = unraisable
        if _asked.is_set():
            if _under_way.is_set():
                watcher.join()  # which ends the process
        else:  # otherwise it goes on watching: other threads may still be at work
            _watching = False
            os.write(told, _ENOUGH)
            watcher.join()
            _stop_watching(handler, descriptor, heard, told)


def _stop_watching(handler: Any, descriptor: int, *pipe: int) -> None:
    """Have signals handled as before."""
    signal.set_wakeup_fd(descriptor)
    signal.signal(signal.SIGTERM, handler)
    for end in pipe:
        os.close(end)


def _raise_again(lost: Any) -> None:
    """The hook for exceptions that C code swallows, as LLVM's callbacks do: an interrupt comes again a moment later."""
    if lost.exc_type is KeyboardInterrupt:
        again = threading.Timer(0.05, _thread.interrupt_main)
        again.daemon = True
        again.start()
    elif not (_noted or _heard.is_set()):  # else it is of an object that the interrupt has left half made
        sys.__unraisablehook__(lost)


def _interrupt(number: int, frame: object) -> None:
    note(number)
    raise KeyboardInterrupt


def _watch(heard: int) -> None:
    arrived = b""
    while signal.SIGTERM not in arrived and arrived.count(signal.SIGINT) < 2:
        arrived += os.read(heard, 64)
        if _ENOUGH in arrived:
            return
        if {signal.SIGTERM, signal.SIGINT} & set(arrived):
            _heard.set()
    _asked.set()
    if signal.SIGTERM in arrived:
        note(signal.SIGTERM)
    time.sleep(GRACE)
    force_end(status())
