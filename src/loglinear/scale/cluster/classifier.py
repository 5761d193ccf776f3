"""A classifier that is trained on a Dask cluster, by the conventions of ``xgboost.dask`` and ``lightgbm.dask``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

import numpy as np

from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import OptionError
from loglinear.estimators.classifier.estimator import Classifier
from loglinear.estimators.options import check_classifier
from loglinear.options import spec_name
from loglinear.scale.cluster.engine import PATIENCE, Cluster, open_cluster
from loglinear.scale.cluster.groups import Report
from loglinear.scale.cluster.rows import ClusterRows, pieces_of_rows

LEARNT_OTHERWISE = ("naive-bayes", "least-squares", "m-estimation", "hmm")


class DaskClassifier:
    """A :class:`~loglinear.Classifier` of rows of numbers that learns on a Dask cluster, by L-BFGS.

    The result does not depend on the number of workers, nor on deaths of some. It is that of ``Classifier`` with
    ``optimizer="lbfgs"``; of dense rows up to rounding, since products of matrices may round as the machine likes.

    Parameters
    ----------
    client, patience
        As of :class:`~loglinear.scale.DaskTagger`.
    **options
        Those of :class:`~loglinear.Classifier`.

    Attributes
    ----------
    client_, report_
        As of :class:`~loglinear.scale.DaskTagger`.
    classes_, coef_, objective_, ...
        As of a classifier.

    Examples
    --------
    >>> DaskClassifier(client=client).fit(dd.read_parquet("rows/*.parquet"), label_column="y")  # doctest: +SKIP
    """

    report_: Report

    def __init__(self, *, client: Any = None, patience: float = PATIENCE, **options: Any) -> None:
        self.client, self.patience = client, patience
        self._classifier = Classifier(**options)

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        label_column: str | None = None,
        say: Callable[[str], None] | None = None,
        **keywords: Any,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X, y
            A Dask data frame of numbers whose labels are in ``label_column``; or Dask arrays [S, A] and [S], whose
            blocks may be sparse matrices.
        label_column : str, optional
        say : callable, optional
            Is told what training is going to take.
        **keywords
            Those of :meth:`Classifier.fit`: ``X_dev``, ``y_dev``, ``sample_weight``, ``init``, ``checkpoint``, ...
        """
        check_rows_trainable(self._classifier)
        pieces = pieces_of_rows(X, y, label_column)
        with ExitStack() as stack:
            cluster = open_cluster(self.client, patience=self.patience)
            if not isinstance(self.client, Cluster):
                stack.callback(cluster.close)
            self.client_ = getattr(cluster, "client", cluster)
            rows = ClusterRows(cluster, pieces)
            stack.callback(rows.release)
            rows.groups.say = say
            self._classifier.n_features_in_ = rows.n_columns
            if rows.names is not None:
                self._classifier.feature_names_in_ = np.array(rows.names, dtype=object)
            self._classifier.fit(rows, **keywords)
        self.report_ = rows.groups.report
        return self

    def predict(self, X: Any) -> Any:
        """Labels of a Dask data frame or array, lazily; of rows in this process at once."""
        local = self.to_local()
        if not hasattr(X, "__dask_graph__"):
            return local.predict(X)
        kind = np.asarray(local.classes_).dtype
        if hasattr(X, "columns"):
            columns = list(self._classifier.feature_names_in_)
            return X[columns].map_partitions(_labels_of_frame, local, meta=("predicted", kind))
        return X.map_blocks(local.predict, drop_axis=1, dtype=kind)

    def to_local(self) -> Classifier:
        """The trained classifier, which needs no cluster."""
        self._classifier._fitted()
        return self._classifier

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All options, by scikit-learn's conventions."""
        return {**self._classifier.get_params(deep), "client": self.client, "patience": self.patience}

    def set_params(self, **params: Any) -> Self:
        """Set options by name."""
        for name in ("client", "patience"):
            if name in params:
                setattr(self, name, params.pop(name))
        self._classifier.set_params(**params)
        return self

    def __getattr__(self, name: str) -> Any:
        """Options and results of the classifier."""
        if name.startswith("__") or name == "_classifier":
            raise AttributeError(name)
        return getattr(self._classifier, name)

    def __repr__(self) -> str:
        return repr(self._classifier).replace("Classifier", "DaskClassifier", 1)


def _labels_of_frame(frame: Any, classifier: Classifier) -> Any:
    """Labels of a partition as a series with its index."""
    import pandas as pd

    return pd.Series(classifier.predict(frame) if len(frame) else [], index=frame.index, name="predicted")


def check_rows_trainable(classifier: Classifier) -> None:
    """Refuse options of a classifier that cannot be trained on a cluster (yet)."""
    check_classifier(classifier)
    part = CRITERIA.part(classifier.criterion) if spec_name(classifier.criterion) in CRITERIA.all() else None
    optimizer = None if classifier.optimizer is None else spec_name(str(classifier.optimizer))
    refused = {
        f"criterion={classifier.criterion!r}": part is None
        or part.name in LEARNT_OTHERWISE
        or "lbfgs" not in part.optimizers,
        f"optimizer={classifier.optimizer!r}": optimizer not in (None, "lbfgs"),
        "kernel": classifier.kernel is not None,
        "feature_map": classifier.feature_map is not None,
        "features": classifier.features is not None,
        "template": classifier.template is not None,
    }
    for what, applies in refused.items():
        if applies:
            raise OptionError(
                f"{what} cannot go onto a cluster yet, where classifiers of rows of numbers are trained by L-BFGS"
            )
