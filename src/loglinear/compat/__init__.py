"""Look-alikes of python-crfsuite and sklearn-crfsuite: programs written for them run on loglinear by another import.

    from loglinear.compat import pycrfsuite, sklearn_crfsuite

or, for programs that import them themselves, once before those do:

    loglinear.compat.install()

Models are files of CRFsuite, which the real packages read as well.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__all__ = ["install", "pycrfsuite", "sklearn_crfsuite", "uninstall"]

_PACKAGES = ("pycrfsuite", "sklearn_crfsuite")
_MODULES = {
    "pycrfsuite": "pycrfsuite",
    "pycrfsuite._pycrfsuite": "pycrfsuite",
    "pycrfsuite._logparser": "pycrfsuite.logparser",
    "pycrfsuite._dumpparser": "pycrfsuite.dump",
    "sklearn_crfsuite": "sklearn_crfsuite",
    "sklearn_crfsuite.estimator": "sklearn_crfsuite.estimator",
    "sklearn_crfsuite.metrics": "sklearn_crfsuite.metrics",
    "sklearn_crfsuite.scorers": "sklearn_crfsuite.scorers",
    "sklearn_crfsuite.trainer": "sklearn_crfsuite.trainer",
    "sklearn_crfsuite.utils": "sklearn_crfsuite.utils",
    "sklearn_crfsuite.compat": "sklearn_crfsuite.estimator",
    "sklearn_crfsuite._fileresource": "sklearn_crfsuite.fileresource",
}  #: the modules of both packages, old pickles' included, and what is there in their place


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def install() -> None:
    """Make ``import pycrfsuite`` and ``import sklearn_crfsuite`` give the look-alikes from now on, in this process.

    If one of the real packages has been imported already, that is an :class:`ImportError`: whatever has imported it
    would go on using it.
    """
    real = [name for name in _MODULES if name in sys.modules and not _is_ours(sys.modules[name])]
    if real:
        package = real[0].partition(".")[0]
        place = getattr(sys.modules[real[0]], "__file__", None) or "memory"
        raise ImportError(
            f"{package} has been imported already, from {place}, and what did so would go on using it: call "
            "loglinear.compat.install() first, before anything that imports it"
        )
    for name, ours in _MODULES.items():
        module = importlib.import_module(f"{__name__}.{ours}")
        sys.modules[name] = module
        package, _, last = name.partition(".")
        if last and not hasattr(sys.modules[package], last):
            setattr(sys.modules[package], last, module)


def uninstall() -> None:
    """Undo :func:`install`: the next import gives the real packages, if they are there."""
    for name in _MODULES:
        if name in sys.modules and _is_ours(sys.modules[name]):
            del sys.modules[name]


def _is_ours(module: ModuleType) -> bool:
    return str(getattr(module, "__name__", "")).startswith(f"{__name__}.")
