"""Names of array types, for annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Float = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
Int8 = npt.NDArray[np.int8]
Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]
UInt16 = npt.NDArray[np.uint16]
UInt64 = npt.NDArray[np.uint64]
Bool = npt.NDArray[np.bool_]
Arrays = dict[str, Array]
