"""scikit-learn's own checks of what an estimator promises."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from loglinear import Classifier, LeastSquares, Ridge

STEP_BY_STEP = "row by row, a row of weight 2 is one longer step, not two (scikit-learn lists its Perceptron, too)"
IN_TURN = {
    "check_sample_weight_equivalence_on_dense_data": STEP_BY_STEP,
    "check_sample_weight_equivalence_on_sparse_data": STEP_BY_STEP,
}
NOT_TO_THE_LAST = "it ends at a gap of 1e-5 of the objective, wherever the order of rows led (LinearSVC is listed, too)"
COUNTS = "the check's rows have negative numbers, whatever the tags say, and this criterion counts"

# One of each way to train: softmax-margin goes as cll does, jrb as risk, mira and passive-aggressive as perceptron.
ESTIMATORS = [
    Ridge(),
    Ridge(solver="conjugate-gradients"),
    LeastSquares(),
    Classifier(),
    Classifier(multiclass="one-versus-all", bias="penalised"),
    Classifier(criterion="risk"),
    Classifier(criterion="least-squares"),
    Classifier(criterion="m-estimation"),
    Classifier(criterion="max-margin"),
    # check_class_weight_classifiers has columns that spread by 20: steps of a bias of 1 would take too many passes
    Classifier(criterion="perceptron", bias_scale=5.0),
]


def expected_failures(estimator):
    criterion = getattr(estimator, "criterion", None)
    if criterion == "max-margin":
        return dict.fromkeys(IN_TURN, NOT_TO_THE_LAST)
    if criterion == "m-estimation":
        return dict.fromkeys(("check_class_weight_classifiers", "check_decision_proba_consistency"), COUNTS)
    return IN_TURN if criterion == "perceptron" else {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_what_scikit_learn_asks(estimator, check):
    check(estimator)
