"""What programs written for python-crfsuite import: trainers, taggers and items, with loglinear behind them.

Model files are CRFsuite's own, in both directions. See :mod:`loglinear.compat`.
"""

from typing import Any, ClassVar

from loglinear.compat.pycrfsuite.items import ItemSequence
from loglinear.compat.pycrfsuite.tagger import Tagger
from loglinear.compat.pycrfsuite.trainer import BaseTrainer, Trainer

__all__ = ["CRFSUITE_VERSION", "BaseTrainer", "CRFSuiteError", "ItemSequence", "Tagger", "Trainer"]

CRFSUITE_VERSION = "0.12.2"  # whose behaviour and files this is modelled on


class CRFSuiteError(Exception):
    """A failure inside CRFsuite, by its code; here for programs that catch it, and never raised."""

    _messages: ClassVar[dict[int, str]] = {
        -2147483648: "Unknown error occurred",
        -2147483647: "Insufficient memory",
        -2147483646: "Unsupported operation",
        -2147483645: "Incompatible data",
        -2147483644: "Internal error",
        -2147483643: "Overflow",
        -2147483642: "Not implemented",
    }

    def __init__(self, code: Any) -> None:
        super().__init__(self._messages.get(code, "Unexpected error"))
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code,)
