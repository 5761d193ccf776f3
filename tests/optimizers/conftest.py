import pytest

from loglinear.structures.chain import steps


@pytest.fixture(scope="module", params=["rows", "lists"])
def both_forms(request):
    """Passes in single precision as for few labels, and as for many (:mod:`~loglinear.structures.chain.wide`)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "FEWEST_LABELS", 1 if request.param == "lists" else 10**9)
        patch.setattr(steps, "MOST_LISTED", 1.0)
        yield request.param
