"""Where the real corpora are, and one hypothesis profile for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Every run draws its own examples; where CI is set they are the same each time, so that landing is no matter of luck.
settings.register_profile(
    "loglinear", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("loglinear")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Folder of the real corpora: LOGLINEAR_DATA, else ../shared/data beside the project; skips if absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("LOGLINEAR_DATA", default))
    if not folder.is_dir():
        pytest.skip("the real corpora are not here; set LOGLINEAR_DATA to their folder")
    return folder
