"""Contents of model files, and files as an adversary would make them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

DTYPES = [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_]
SMALL = {
    "weights": np.array([1.5, -2.0, 0.0]),
    "ids": np.arange(4, dtype=np.int32).reshape(2, 2),
    "mask": np.array([True, False, True]),
}

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda name: name != "__metadata__")
any_text = st.text(st.characters(), max_size=8)  # lone surrogates too
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
headers = st.dictionaries(any_text, json_values, max_size=4)
some_arrays = st.dictionaries(
    names,
    st.sampled_from(DTYPES).flatmap(lambda t: hnp.arrays(t, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))),
    max_size=4,
)


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Equal names, types, shapes and bits (NaN included)."""
    return left.keys() == right.keys() and all(
        (a := np.asarray(left[k])).dtype == (b := np.asarray(right[k])).dtype
        and a.shape == b.shape
        and a.tobytes() == b.tobytes()
        for k in left
    )


def signed(table: dict[str, Any], data: bytes = b"", pad: int = 0) -> bytes:
    """A file with any table and a right checksum, as an adversary would make it."""
    text = json.dumps(table, separators=(",", ":")).encode() + b" " * pad
    blob = len(text).to_bytes(8, "little") + text + data
    key = b'"checksum":"'
    if key not in blob:
        return blob
    place = blob.index(key) + len(key)
    digest = hashlib.sha256(blob[:place] + b"0" * 64 + blob[place + 64 :]).hexdigest().encode()
    return blob[:place] + digest + blob[place + 64 :]


def table_of(entries: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    base = {
        "format": "loglinear",
        "format_version": "1",
        "kind": "tagger",
        "loglinear_version": "0.1.0",
        "header": "{}",
        "checksum": "0" * 64,
    }
    merged = {key: value for key, value in {**base, **metadata}.items() if value is not None}
    return {"__metadata__": merged, **entries}


def entry(dtype: Any, shape: Any, offsets: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}
