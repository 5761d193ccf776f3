"""What an observer of a training may look at."""

import numpy as np
import pytest

from loglinear import Tagger

X = [["w=a", "p=x"], ["w=b"], ["w=a"]], [["w=b", "p=y"], ["w=c"]]
Y = ["A", "B", "A"], ["B", "A"]


@pytest.mark.parametrize(
    ("options", "knows"),
    [({"optimizer": "lbfgs"}, True), ({"optimizer": "lbfgs", "l1": 0.3}, True), ({"optimizer": "dual"}, False),
     ({"optimizer": "dual", "l1": 0.3}, False), ({"optimizer": "sgd"}, False), ({"criterion": "perceptron"}, False)],
)  # fmt: skip
def test_a_look_shows_the_weights_and_the_gradients_norm(options, knows):
    tagger, seen = Tagger(max_iter=6, **{"l2": None if "criterion" in options else 0.1, **options}), []
    problem = Tagger().problem(X, Y)
    spec, l2 = options.get("criterion", "cll"), 0.0 if "criterion" in options else 0.1
    objective = problem.objective(problem.criterion(spec), l2, 1)

    def observe(progress):
        look, l1 = progress.look, options.get("l1", 0.0)
        assert look.knows_gradient == knows
        gradient = objective(np.array(look.weights))[1]
        if l1:
            zero, sign = look.weights == 0.0, np.sign(look.weights)
            shrunk = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
            gradient = np.where(zero, shrunk, gradient + l1 * sign)
        assert look.gradient_norm == pytest.approx(np.linalg.norm(gradient), rel=1e-4, abs=1e-5)
        assert look.norm == pytest.approx(np.linalg.norm(look.weights)) and look.n_active == np.sum(look.weights != 0)
        with pytest.raises(ValueError, match="read-only"):
            look.weights[0] = 1.0
        seen.append((look.weights.copy(), progress))

    tagger.fit(X, Y, observe=observe)
    assert len(seen) == len(tagger.history_) > 0
    assert all(progress.look is None for progress in tagger.history_)
    assert tagger.history_[-1] == seen[-1][1]  # but for the look
