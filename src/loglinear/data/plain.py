"""Plain text for tagging: one sentence a line, tokens between blanks (spaces and tabs); blank lines are skipped."""

from __future__ import annotations

import numpy as np

from loglinear.data.columns import Columns, offsets_of
from loglinear.data.files import Source, check_text, read_bytes, source_name
from loglinear.errors import DataError


def read_text(source: Source) -> Columns:
    """Read plain text as a corpus of one column, the tokens.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip.

    Raises
    ------
    DataError
        With file and line: invalid UTF-8, a NUL byte, no token at all.
    """
    from loglinear.data import text

    name, raw = source_name(source), read_bytes(source)
    lines = text.lines_of(raw, check_text(raw, name), text.BLANKS)
    chosen = np.flatnonzero(lines.counts)
    if len(chosen) == 0:
        raise DataError("the file holds no tokens", name)
    returns = lines.flags[chosen] & text.HAS_RETURN > 0
    if returns.any():
        line = int(chosen[np.argmax(returns)]) + 1
        raise DataError("a carriage return inside a line; end lines with LF or CRLF", name, line)
    lengths = lines.counts[chosen]
    column = lines.column(*lines.fields(chosen))
    return Columns(name, offsets_of(lengths), np.repeat(chosen + 1, lengths), [column], unlabelled=int(chosen[0]) + 1)
