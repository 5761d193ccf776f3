"""What every estimator that iterates has: progress, dev data, warm start, checkpoints, signals and history."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from loglinear import HMM, Classifier, DependencyParser, Mixture, Parser, Tagger, model_file
from loglinear.data.corpora.bundled import bundled_trees
from loglinear.errors import OptionError
from loglinear.training.run import TrainingInterrupted

RNG = np.random.default_rng(0)
TREES = bundled_trees("train", entities=False)[:25]
WORDS = [[(f"w{RNG.integers(9)}", f"t{RNG.integers(3)}") for _ in range(RNG.integers(2, 8))] for _ in range(30)]
LABELS = [["O" if word in ("w1", "w2") else f"L{tag}" for word, tag in x] for x in WORDS]
CHUNKS = [
    ["O" if y == "O" else "I-X" if t and labels[t - 1] != "O" else "B-X" for t, y in enumerate(labels)]
    for labels in LABELS
]
HIDDEN = [[None if (i + t) % 3 else label for t, label in enumerate(y)] for i, y in enumerate(LABELS)]
ROWS = np.concatenate([RNG.normal(size=(40, 3)) + shift for shift in (0.0, 1.5, 3.0)])
KINDS = np.repeat(["a", "b", "c"], 40)
COUNTS = RNG.poisson(np.repeat([[4.0, 1, 1, 0.5], [0.5, 1, 1, 4]], 30, axis=0)).astype(float)
CELLS = [[f"v{min(int(value), 3)}" for value in row] for row in COUNTS]
SENTENCES = [[(f"w{RNG.integers(7)}", f"t{RNG.integers(3)}") for _ in range(RNG.integers(2, 7))] for _ in range(25)]
ARCS = [[(0 if t == 0 else t, "root" if t == 0 else f"r{x[t][1]}") for t in range(len(x))] for x in SENTENCES]


@dataclass
class Case:
    """An estimator, its training data, and what dev data it is judged by (None: it takes none)."""

    make: Callable[[], Any]
    data: tuple[Any, ...]
    dev: dict[str, Any] | None = None
    falls: bool = True  # the objective, from iteration to iteration
    phases: set[str] = field(default_factory=lambda: {"main"})


def tagger(y: Any = LABELS, falls: bool = True, phases: Any = None, **options: Any) -> Case:
    options = {"template": "words", "max_iter": 12, "l2": 0.1, "threads": 1, **options}
    held_out = {"X_dev": WORDS[:8], "y_dev": (LABELS if y is HIDDEN else y)[:8]}
    return Case(lambda: Tagger(**options), (WORDS, y), held_out, falls, phases or {"main"})


def classifier(**options: Any) -> Case:
    direct = options.get("multiclass", "direct") == "direct"
    held_out = {"X_dev": ROWS[::4], "y_dev": KINDS[::4]} if direct else None
    return Case(lambda: Classifier(threads=1, **{"max_iter": 8, **options}), (ROWS, KINDS), held_out)


def parser(criterion: str, phases: Any = None, **options: Any) -> Case:
    options = {"criterion": criterion, "annotation": "none", "threads": 1, "max_iter": 4, **options}
    return Case(lambda: Parser(**options), (TREES,), {"X_dev": TREES[:5]}, True, phases or {"main"})


def dependency_parser(phases: Any = None, **options: Any) -> Case:
    options = {"threads": 1, "max_iter": 4, **options}
    held_out = {"X_dev": SENTENCES[:6], "y_dev": ARCS[:6]}
    return Case(lambda: DependencyParser(**options), (SENTENCES, ARCS), held_out, True, phases or {"main", "relations"})


COUNTED = {"template": None, "max_iter": None, "l2": None}
CASES = {
    "tagger": tagger(optimizer="lbfgs", l1=0.05),
    "tagger-dual": tagger(),
    "tagger-online": tagger(criterion="mira", l2=None),
    "tagger-risk": tagger(criterion="risk", phases={"cll", "main"}),
    "tagger-threshold": tagger(criterion="nota:threshold=0.1,after=4", phases={"opening", "main"}),
    "tagger-scaling": tagger(criterion="nota:scaling", phases={"main", "scaling"}),
    "tagger-rounds": tagger(
        HIDDEN, criterion="m-estimation:rounds=3", l2=None, variance=1.0, max_iter=2, phases={"round 1", "main"},
    ),
    "tagger-soft-rounds": tagger(
        HIDDEN, criterion="m-estimation:em=soft,rounds=3", l2=None, variance=1.0, max_iter=2,
        phases={"round 1", "round 2", "main"},
    ),
    "tagger-segments": tagger(CHUNKS, structure="segments", l1=0.05),
    "tagger-segments-online": tagger(CHUNKS, structure="segments", criterion="mira", l2=None),
    "tagger-em": tagger(HIDDEN, criterion="hmm:rounds=8,tolerance=0", **COUNTED),
    "hmm": Case(
        lambda: HMM(labels=2, rounds=5, restarts=2, tolerance=0, threads=1), (WORDS,),
        phases={f"start {i} of 3" for i in (1, 2, 3)},
    ),
    "classifier": classifier(),
    "classifier-one-versus-all": classifier(multiclass="one-versus-all"),
    "classifier-risk": classifier(criterion="risk", l2=0.1, multiclass="one-versus-all"),
    "classifier-online": classifier(criterion="perceptron"),
    "dependency-parser": dependency_parser(),
    "dependency-parser-risk": dependency_parser(criterion="risk", max_iter=2, phases={"cll", "main", "relations"}),
    "dependency-parser-lbfgs": dependency_parser(criterion="cll", optimizer="lbfgs", relations=False, phases={"main"}),
    "dependency-parser-m-estimation": dependency_parser(criterion="m-estimation", base="head-outward:samples=500"),
    "parser-mecfg": parser("mecfg"),
    "parser-nota": parser("nota:after=3,rounds=2", phases={"mecfg", "round 1", "main"}),
    "parser-scaling": parser("nota:after=3,parsed=0.5,scaling", phases={"mecfg", "main", "scaling"}),
    "parser-cll": parser("cll"),
    "parser-risk": parser("risk", cost="hamming:2", phases={"cll", "main"}),
    "parser-online": parser("mira"),
    "parser-max-margin": parser("max-margin", cost="hamming:2"),
    "parser-m-estimation": parser("m-estimation:samples=300"),
    "parser-hidden-trees": Case(
        lambda: Parser(
            "m-estimation:em=soft,rounds=3,places=first+last", annotation="none", variance=1.0, max_iter=3, threads=1
        ),
        ([*TREES, *(tree.leaves() for tree in TREES[:4])],), {"X_dev": TREES[:5]}, True,
        {"round 1", "round 2", "main"},
    ),
    "parser-em": parser("pcfg-em:smoothing=0.01"),
    "parser-em-of-sentences": Case(
        lambda: Parser("pcfg-em:start=random,phrases=3,tags=3,restarts=2", max_iter=4, tolerance=0, threads=1),
        ([tree.tags() for tree in TREES],), {"X_dev": [tree.tags() for tree in TREES[:5]]},
        phases={f"start {i} of 3" for i in (1, 2, 3)},
    ),
    "mixture": Case(
        lambda: Mixture(3, covariance="full", restarts=2, rounds=6, tolerance=0), (ROWS,), {"X_dev": ROWS[::3] + 0.1},
        phases={f"start {i} of 3" for i in (1, 2, 3)},
    ),
    "mixture-of-counts": Case(
        lambda: Mixture(2, components="multinomial", restarts=0, rounds=6, tolerance=0), (COUNTS,),
        {"X_dev": COUNTS[::3]},
    ),
    "mixture-of-tables": Case(
        lambda: Mixture(2, components="naive-bayes", restarts=0, rounds=6, tolerance=0), (CELLS,),
        {"X_dev": CELLS[::3]},
    ),
    "mixture-of-sequences": Case(
        lambda: Mixture(2, components="hmm:states=2", restarts=1, rounds=6, tolerance=0, threads=1), (WORDS,),
        {"X_dev": WORDS[::3]}, phases={f"start {i} of 2" for i in (1, 2)},
    ),
}  # fmt: skip
CASES["classifier-risk"].phases = {"cll", "main"}
every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Stop(Exception):
    pass


def interrupting(after: int, how: Callable[[], None]) -> Callable[[Any], None]:
    """An observer that does something after so many iterations, whatever their phase."""
    seen = []

    def observe(progress: Any) -> None:
        seen.append(progress)
        if len(seen) == after:
            how()

    return observe


def stop() -> None:
    raise Stop


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def told(estimator: Any) -> Any:
    history = [
        (progress.phase, progress.iteration, progress.evaluations, progress.objective, progress.dev_score)
        for progress in estimator.history_
    ]
    return estimator.message_, estimator.n_iter_, estimator.converged_, estimator.dev_score_, history


def assert_same(one: Any, other: Any) -> None:
    """The same model to the last bit, and the same tale of how it came about."""
    arrays, others = (model_file.load(each.to_bytes()).arrays for each in (one, other))
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        assert array.tobytes() == others[name].tobytes(), name
    assert told(one) == told(other)


@every
def test_a_killed_training_goes_on_as_if_never_stopped(case: Case, tmp_path):
    dev = case.dev or {}
    whole = case.make().fit(*case.data, **dev)
    n = len(whole.history_)
    assert {progress.phase for progress in whole.history_} >= case.phases and n >= 3
    for after in sorted({2, n // 2, n}):
        path = tmp_path / str(after)
        with pytest.raises(Stop):
            case.make().fit(*case.data, **dev, checkpoint=path, checkpoint_seconds=0, observe=interrupting(after, stop))
        usable = type(whole).load(path)  # a model of what was learnt so far
        assert usable.converged_ is False and "unfinished" in usable.message_
        assert_same(case.make().fit(*case.data, **dev, checkpoint=path, resume=True), whole)


@every
def test_a_signal_keeps_what_was_learnt(case: Case, tmp_path):
    whole = case.make().fit(*case.data)
    for after, path in ((1, None), (len(whole.history_) - 1, tmp_path / "checkpoint")):
        estimator = case.make()
        where = "; go on from" if path else "$"
        with pytest.raises(TrainingInterrupted, match=rf"after iteration \d+{where}"):
            estimator.fit(*case.data, checkpoint=path, observe=interrupting(after, interrupt))
        assert len(estimator.history_) == after and not estimator.converged_
        assert estimator.to_bytes()  # it has a model
    assert_same(case.make().fit(*case.data, checkpoint=path, resume=True), whole)


@every
def test_dev_data_stops_early_and_keeps_the_best(case: Case):
    if case.dev is None:
        pytest.skip("it takes no dev data")
    estimator = case.make().set_params(patience=1).fit(*case.data, **case.dev)
    judged = [progress for progress in estimator.history_ if progress.dev_score is not None]
    assert judged and estimator.dev_score_ >= max(progress.dev_score for progress in judged)
    again = case.make().fit(*case.data, **case.dev)
    assert again.dev_score_ >= estimator.dev_score_ and len(again.history_) >= len(estimator.history_)


@every
def test_a_warm_start_is_where_training_begins(case: Case, tmp_path):
    old = case.make().fit(*case.data)
    old.save(tmp_path / "old.model")
    for init in (old, str(tmp_path / "old.model")):
        new = case.make().fit(*case.data, init=init)
        assert {progress.phase for progress in new.history_} <= {*case.phases, "main"}
        first = new.history_[0]
        cold = next((each for each in old.history_ if each.phase == first.phase), old.history_[0])
        if case.falls:
            assert first.objective <= cold.objective + 1e-6 * abs(cold.objective)
        else:
            assert first.objective != cold.objective


def test_a_start_that_has_nothing_in_common_is_refused():
    with pytest.raises(OptionError, match="has no parameters in common"):
        Mixture(3).fit(ROWS, init=Mixture(2).fit(ROWS))
    with pytest.raises(OptionError, match="pcfg has no weights to start from"):
        Parser("mecfg").fit(TREES, init=Parser().fit(TREES))
    with pytest.raises(OptionError, match="from the probabilities of a pcfg, not from weights"):
        Parser("pcfg-em").fit(TREES, init=Parser("mecfg", max_iter=1).fit(TREES))
    with pytest.raises(OptionError, match="of another order"):
        HMM(order=2).fit(WORDS, HIDDEN, init=HMM().fit(WORDS, LABELS))
    with pytest.raises(OptionError, match="starts from the probabilities"):
        Tagger("hmm").fit(WORDS, HIDDEN, init=Tagger(template="words", max_iter=1).fit(WORDS, LABELS))


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (Parser(), (TREES,)),
        (Tagger("hmm"), (WORDS, LABELS)),
        (HMM(), (WORDS, LABELS)),
        (Classifier("least-squares"), (ROWS, KINDS)),
        (Classifier("naive-bayes"), (np.abs(ROWS), KINDS)),
        (DependencyParser("generative", relations=False), (SENTENCES, ARCS)),
    ],
)
def test_what_does_not_iterate_has_no_use_for_dev_data_or_a_start(estimator, data, tmp_path):
    y = {} if isinstance(estimator, Parser) else {"y_dev": data[1]}
    with pytest.raises(OptionError, match="no use for dev data"):
        estimator.fit(*data, X_dev=data[0], **y)
    with pytest.raises(OptionError, match="no use for a model to start from"):
        estimator.fit(*data, init=tmp_path / "some.model")
    estimator.fit(*data, checkpoint=tmp_path / "checkpoint")  # no mistake: there is nothing to go on from
    assert not (tmp_path / "checkpoint").exists()


@every
def test_a_checkpoint_of_another_training_is_refused(case: Case, tmp_path):
    path = tmp_path / "checkpoint"
    with pytest.raises(Stop):
        case.make().fit(*case.data, checkpoint=path, checkpoint_seconds=0, observe=interrupting(2, stop))
    with pytest.raises(OptionError, match="did not end; go on with resume"):
        case.make().fit(*case.data, checkpoint=path)
    with pytest.raises(OptionError, match="other data or options"):
        case.make().set_params(seed=1).fit(*case.data, checkpoint=path, resume=True)
    with pytest.raises(OptionError, match="other data or options"):
        case.make().fit(*(part[:-1] for part in case.data), checkpoint=path, resume=True)
    with pytest.raises(OptionError, match="resume=True needs the checkpoint"):
        case.make().fit(*case.data, resume=True)


SCRIPT = textwrap.dedent(
    """
    import sys, time
    from test_every_estimator import CASES
    case = CASES[sys.argv[1]]
    def observe(progress):
        print(progress.iteration, flush=True)
        time.sleep(0.2)
    case.make().fit(*case.data, checkpoint=sys.argv[2], observe=observe)
    """
)


@pytest.mark.parametrize("name", ["tagger-risk", "parser-nota", "parser-em", "dependency-parser", "mixture"])
def test_a_process_that_is_told_to_end_leaves_a_checkpoint(name: str, tmp_path):
    path, case = tmp_path / "checkpoint", CASES[name]
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, name, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])},
    )  # fmt: skip
    for _ in range(3):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    error = process.communicate(timeout=120)[1].decode()
    assert "TrainingInterrupted" in error and process.returncode != 0
    assert_same(case.make().fit(*case.data, checkpoint=path, resume=True), case.make().fit(*case.data))


def test_verbose_prints_a_line_for_each_iteration(capsys):
    for case in (CASES["mixture-of-counts"], CASES["parser-mecfg"], CASES["classifier"]):
        estimator = case.make().set_params(verbose=True).fit(*case.data)
        assert capsys.readouterr().out.count("iteration") == len(estimator.history_)
