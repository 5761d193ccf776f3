"""Machine code on disk: what Numba has compiled of a kernel, kept in the user's cache for the next process.

A version of a kernel, known by its digest (:func:`~loglinear.kernels.digest.digest_of`), has an index and a file for
each signature, in the folder of the kernel's module:

    NAME-DIGEST.pyXY.nbi            SHA-256 of what follows; Numba's version; signature -> name and SHA-256 of its data
    NAME-DIGEST.pyXY.CONTENT.nbc    the machine code, in a file named after its SHA-256

Both are pickles of Numba's, and loading one runs code. They are therefore read only from folders and files that nobody
else can have written (:mod:`loglinear.system`), and only if their bytes are those that were written: anything else, a
file cut short or changed by a failing disk, is as if it were not there, and is replaced. Processes that fill one cache
at once write different contents to different files, and take turns with the index.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import pickle
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from loglinear.kernels import PACKAGE
from loglinear.system import cache_folder, locked, read_private, replace_file, why_not_private

FOLDER = "machine-code"
KEPT_VERSIONS = 3  # of a kernel's machine code, for projects that stand side by side; older ones are deleted
_PYTHON = f"py{sys.version_info[0]}{sys.version_info[1]}"
_SHA256 = 32  # bytes

Index = dict[Any, tuple[str, bytes]]


class Files(FunctionCache):
    """Numba's cache of a function, with files of ours.

    Parameters
    ----------
    function : callable
    digest : str
        Of all that its machine code depends on.
    """

    def __init__(self, function: Any, digest: str) -> None:
        self._py_func, self._impl = function, _Converter(function)
        self.folder = cache_folder() / FOLDER / function.__module__.removeprefix(PACKAGE + ".")
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._base = f"{self._name}-{digest[:16]}.{_PYTHON}{getattr(sys, 'abiflags', '')}"
        self._index_file = self.folder / f"{self._base}.nbi"
        self._stamp = (numba.__version__, digest)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code for a signature, or None."""
        if _why_not(self.folder):
            return None
        key = self._index_key(sig, target_context.codegen())  # type: ignore[no-untyped-call]  # numba has few types
        name, digest = self._index().get(key, ("", b""))
        with suppress(Exception):  # not there, or whole but of no use to this Numba: it is compiled again
            data = read_private(self.folder / name)
            if hashlib.sha256(data).digest() == digest:
                return self._impl.rebuild(target_context, pickle.loads(data))
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code for a signature; raises OSError."""
        if not self._impl.check_cachable(data):
            return
        if reason := _why_not(self.folder):
            raise PermissionError(f"{self.folder} {reason}")
        key = self._index_key(sig, data.codegen)  # type: ignore[no-untyped-call]
        content: bytes = dumps(self._impl.reduce(data))  # type: ignore[no-untyped-call]
        digest = hashlib.sha256(content)
        name = f"{self._base}.{digest.hexdigest()[:16]}.nbc"
        with locked(self.folder):
            replace_file(self.folder / name, content)
            index = {**self._index(), key: (name, digest.digest())}
            self._write(index)
            self._forget_others({known for known, _ in index.values()})

    def flush(self) -> None:
        """Forget all signatures."""
        self._write({})

    def _index(self) -> Index:
        """What the index says; nothing if there is none, or if it is damaged or of another version."""
        with suppress(Exception):
            content = read_private(self._index_file)
            stream = io.BytesIO(content)
            is_whole = stream.read(_SHA256) == hashlib.sha256(memoryview(content)[_SHA256:]).digest()
            if is_whole and pickle.load(stream) == self._stamp:  # else its types may be unknown
                index: Index = pickle.load(stream)
                return index
        return {}

    def _write(self, index: Index) -> None:
        content = pickle.dumps(self._stamp) + dumps(index)  # type: ignore[no-untyped-call]
        replace_file(self._index_file, hashlib.sha256(content).digest() + content)

    def _forget_others(self, names: set[str]) -> None:
        """Delete data that no index names any longer, and all but the last few versions of the kernel."""
        with suppress(OSError):
            unknown = [file for file in self.folder.glob(f"{self._base}.*.nbc") if file.name not in names]
            indices = self.folder.glob(f"{self._name}-*.{_PYTHON}*.nbi")
            for index in sorted(indices, key=lambda path: -path.stat().st_mtime)[KEPT_VERSIONS:]:
                unknown += self.folder.glob(f"{index.stem}.*")
            for file in unknown:
                file.unlink(missing_ok=True)


@cache
def _why_not(folder: Path) -> str:
    return why_not_private(folder)


class _Converter(FunctionCache._impl_class):  # type: ignore[misc, valid-type]  # numba has few types
    """Numba's conversion of compiled functions to what can be pickled, and back."""

    def __init__(self, function: Any) -> None:
        self._locator, self._lineno = self, function.__code__.co_firstlineno
        self._py_file = inspect.getfile(function)  # Numba names it in warnings
