"""Model files of other tools: bytes to arrays, checked to the last offset, and back. No code in them can run.

One file for each tool. What these arrays are as a tagger is said in :mod:`loglinear.estimators.tagger.foreign`.
"""

from __future__ import annotations

import math
import re
import struct

CRFSUITE, CRFPP, WAPITI_TOOL = "CRFsuite", "CRF++", "Wapiti"
OPENING = 40  # bytes of a file that say which tool wrote it

_CRFPP_TEXT = re.compile(rb"version: \d+\r?\n")


def tool_of(opening: bytes) -> str | None:
    """The tool that wrote a model file which begins with these :data:`OPENING` bytes; None if it is none of them."""
    if opening.startswith(b"lCRF"):
        return CRFSUITE
    if opening.startswith(b"#mdl#"):
        return WAPITI_TOOL
    return CRFPP if _CRFPP_TEXT.match(opening) or _is_crfpp_binary(opening) else None


def _is_crfpp_binary(opening: bytes) -> bool:
    """Whether version, type and cost factor are there, and the labels end with a NUL or go on."""
    if len(opening) <= 32:
        return False
    version, kind, cost, *_ = struct.unpack_from("<IidIIII", opening)
    return bool(version == 100 and kind in (0, 1, 2) and math.isfinite(cost))
