"""The options of a mixture, declared once, and which of them go together."""

from __future__ import annotations

from typing import Any

from loglinear.errors import OptionError
from loglinear.options import Option

KINDS = ("gaussian", "multinomial")
COVARIANCES = ("known", "spherical", "diagonal", "tied", "full")  # the shapes of generative/gaussian_covariance.py
STARTS = ("k-means++", "random")
COVARIANCE, VARIANCE, FLOOR = "diagonal", 1.0, 1e-6  # by default
OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("n_components", 2, "how many components", least=1, kind=int),
        Option("components", "gaussian", "what they are: of numbers, or of counts (bags of words)", choices=KINDS),
        Option(
            "covariance",
            None,
            f"of Gaussians: known is the given variance, tied one for all; {COVARIANCE} by default",
            choices=COVARIANCES,
        ),
        Option("variance", None, "of Gaussians with covariance known: sigma^2; 1 by default", above=0, kind=float),
        Option(
            "smoothing",
            None,
            "of multinomials, lambda of the Dirichlet prior (1 by default); of Gaussians, how many rows the prior of "
            "covariances is worth (0)",
            least=0,
            kind=float,
        ),
        Option(
            "floor",
            None,
            "of Gaussians, the least variance, as a share of the variance of all rows; 1e-6 by default",
            above=0,
            kind=float,
        ),
        Option("start", STARTS[0], "how the first centres are found: k-means++ or random"),
        Option("restarts", 4, "further starts of EM, the best of which is kept", least=0, kind=int),
        Option("rounds", 300, "most rounds of EM from each start", least=0, kind=int),
        Option("tolerance", 1e-6, "EM ends when a round raises the objective by less, per row", least=0, kind=float),
        Option("seed", 0, "seed of the starts", least=0, kind=int),
    )
}
GAUSSIAN_ONLY = ("covariance", "variance", "floor")


def check_mixture(mixture: Any) -> None:
    """Refuse options that make no sense, alone or together."""
    for name, option in OPTIONS.items():
        option.check(getattr(mixture, name))
    if mixture.components == "multinomial":
        for name in GAUSSIAN_ONLY:
            if getattr(mixture, name) is not None:
                raise OptionError(f"{name}={getattr(mixture, name)!r} is for components='gaussian': counts have none")
        if mixture.smoothing == 0:
            raise OptionError("smoothing=0: a word that a component never has would have probability zero; give more")
    elif mixture.covariance == "known":
        for name in ("smoothing", "floor"):
            if getattr(mixture, name):
                raise OptionError(f"{name}={getattr(mixture, name)!r}: with covariance='known' no variance is learnt")
    elif mixture.variance is not None:
        raise OptionError(f"variance={mixture.variance!r} is for covariance='known'; others are learnt")
    if isinstance(mixture.start, str) and mixture.start not in STARTS:
        raise OptionError(f"start={mixture.start!r} is not one of {', '.join(STARTS)}, nor rows that are centres")
