"""Where the real corpora are: LOGLINEAR_DATA, else ../shared/data beside the project."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder(corpus: str = "conll2000") -> Path:
    """The folder of a corpus."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("LOGLINEAR_DATA", default)) / corpus
    if not folder.is_dir():
        raise SystemExit(f"the corpus is not in {folder}; set LOGLINEAR_DATA to the folder that holds {corpus}/")
    return folder
