"""Models that grow: steps on new data, one call of ``partial_fit`` after another.

A *stream* is a sequence of calls. Each is one pass over its examples by the steps of an online learner, of ``sgd`` or
of ``adagrad``, in an order shuffled by the seed and the number of the call. The model has all labels, attributes and
features of the data so far; a new feature has weight 0 up to the call that brings it. With n_i examples in call i,

    weights       those after the last step or, with averaging, their mean over all n_1 + ... + n_k steps, in which a
                  new feature counts as 0 for each step before
    penalties     a step of call k pays 1 / (n_1 + ... + n_k) of them: what a step of a pass over all data so far would
    step sizes    of sgd: step / (1 + decay (k - 1 + share of call k done)), step calibrated in call 1 unless given; of
                  adagrad: by all derivatives so far

so that one call on new data is one pass of ``fit``. A model that ``fit`` trained, or one read from a file without a
stream, is where a new stream starts: at its weights, whose mean counts from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from loglinear.arrays import Arrays, Float
from loglinear.errors import ModelFileError, OptionError
from loglinear.estimators.options import BALANCED
from loglinear.model_file import Reader
from loglinear.optimizers.optimizer import OPTIMIZERS, make_optimizer
from loglinear.optimizers.passes import PassState
from loglinear.options import spec_name
from loglinear.training.plan import l2_factor
from loglinear.training.problem import Learnable
from loglinear.wording import how_many

ABLE = ("online", "sgd", "adagrad")  #: optimizers that go example by example
MOST_STEPS = 2**53


@dataclass(frozen=True)
class Stream:
    """Where a stream stands.

    Parameters
    ----------
    criterion, optimizer : str
        What the steps are; others begin a new stream.
    state : PassState
        Of the optimizer after the last call; its weights are those of the model's features, in their order.
    """

    criterion: str
    optimizer: str
    state: PassState

    @property
    def calls(self) -> int:
        """How many calls there were."""
        return self.state.iteration

    def moved(self, place: Callable[[Float], Float]) -> Stream:
        """The stream of a model with more features; ``place`` puts one number for each feature into the new order."""
        state = self.state
        parts: dict[str, Any] = {name: place(array) for name in state.arrays if len(array := getattr(state, name))}
        return replace(self, state=replace(state, **parts))

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Its part of a model file."""
        arrays = {f"stream.{name}": array for name, array in self.state.to_arrays().items()}
        return {"criterion": self.criterion, "optimizer": self.optimizer}, arrays

    @classmethod
    def from_storage(cls, read: Reader, n_features: int) -> Stream | None:
        """The stream of a model file, None if it has none."""
        if not read.has("stream"):
            return None
        part = read.section("stream")
        for name in PassState.arrays:
            part.floats(name, (None,))
        part.floats("values", (None,))
        try:
            state = PassState.from_arrays(part.arrays)
        except ModelFileError:
            part.fail("counts", "not those of a stream of calls")
        whole = len(state.current) == n_features and 0 < state.iteration <= state.n_steps <= MOST_STEPS
        if not whole or not state.step > 0.0 or (state.squares < 0.0).any():
            part.fail("current", "not the numbers of this model")
        return cls(part.text("criterion"), part.text("optimizer"), state)


def stream_optimizer(estimator: Any, criterion: Any, able: tuple[str, ...]) -> str:
    """The spec of the optimizer of an estimator's stream; ``able`` are those that can train it by its ``criterion``."""
    if estimator.class_weight == BALANCED:
        raise OptionError(
            f"class_weight={BALANCED!r} goes by how often labels are, and one call of partial_fit does not know; give "
            "a number for each label"
        )
    asked = estimator.optimizer
    if asked is None:
        for name in ABLE:
            if name in able:
                return name
    elif spec_name(asked) in ABLE:
        return str(asked)
    name = spec_name(estimator.criterion)
    usable = [each for each in ABLE if each in able]
    if usable:
        raise OptionError(
            f"optimizer={asked!r} needs all data at once; partial_fit goes example by example, criterion={name!r} by "
            f"{' or '.join(usable)}; to train on new data by {spec_name(asked)}, call fit(X, y, init=model, grow=True)"
        )
    raise OptionError(
        f"criterion={name!r} is trained on all data at once ({', '.join(criterion.optimizers)}), and partial_fit goes "
        "example by example; criteria that can: perceptron, passive-aggressive, mira, and by sgd cll, max-margin, ..."
    )


def advanced(
    part: Learnable, options: Any, optimizer: str, start: Float, stream: Stream | None, n_examples: int, n_threads: int
) -> Stream:
    """The stream after one more call, on the ``n_examples`` of the problem ``part``.

    ``start`` [D] are the weights to begin with where there is no ``stream`` so far.
    """
    criterion = part.criterion(options.criterion, options.cost)
    before = 0 if stream is None else stream.state.n_steps
    calls = 0 if stream is None else stream.calls
    share = n_examples / (before + n_examples)
    l2 = l2_factor(options.l2, options.variance, part.default_l2(criterion)) if _takes_l2(optimizer) else 0.0
    objective = part.objective(criterion, l2 * share, n_threads)
    steps = make_optimizer(optimizer, max_iter=calls + 1, tolerance=0.0, seed=options.seed)
    state = None if stream is None else replace(stream.state, values=[], moves=1)
    result = steps.minimise(objective, start, l1=options.l1 * share, state=state)
    return Stream(str(options.criterion), optimizer, replace(result.state, values=[]))


def _takes_l2(optimizer: str) -> bool:
    return OPTIMIZERS.part(optimizer).takes_l2


def continued(stream: Stream | None, options: Any, optimizer: str) -> Stream | None:
    """The stream if it goes on by the same steps, else None."""
    same = stream is not None and (stream.criterion, stream.optimizer) == (str(options.criterion), optimizer)
    return stream if same else None


def note_of(stream: Stream) -> str:
    """What a model's ``message_`` says of the stream."""
    steps = how_many(stream.state.n_steps, "step")
    return f"after {how_many(stream.calls, 'call')} of partial_fit, {steps} of {spec_name(stream.optimizer)}"
