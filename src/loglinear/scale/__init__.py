"""Room for what is larger than a process: corpora beyond memory, files part by part, models inside other engines.

    encoded      a corpus in numbers, in a folder
    tables       labels of Arrow tables, and of Parquet and Arrow files part by part
    parts        the files that a glob or a folder names, and where the output of each goes
    models       model files, loaded once a process
    frames       :func:`tag_frame`, for pandas and Dask's ``map_partitions``
    collections  :func:`predict`, for Dask's bags and data frames
    datasets     :class:`BatchTagger`, for ``map`` of Hugging Face's ``datasets``
    spark        ``tag_udf``, for Spark
    cluster      training and other work on a cluster: :class:`DaskTagger`, :class:`DaskClassifier`

All but ``encoded``, ``parts``, ``models`` and ``cluster`` need pyarrow (``pip install 'loglinear[parquet]'``).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loglinear.scale.cluster.classifier import DaskClassifier
    from loglinear.scale.cluster.tagger import DaskTagger
    from loglinear.scale.datasets import BatchTagger
    from loglinear.scale.frames import tag_frame

_HOMES = {
    "BatchTagger": "datasets",
    "DaskClassifier": "cluster.classifier",
    "DaskTagger": "cluster.tagger",
    "tag_frame": "frames",
}
__all__ = ["BatchTagger", "DaskClassifier", "DaskTagger", "tag_frame"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'loglinear.scale' has no attribute {name!r}")
    return getattr(importlib.import_module(f"loglinear.scale.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
