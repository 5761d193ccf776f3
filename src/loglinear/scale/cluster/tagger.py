"""A tagger that is trained on a Dask cluster, by the conventions of ``xgboost.dask`` and ``lightgbm.dask``."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

from loglinear.estimators.tagger.estimator import Tagger
from loglinear.scale.cluster.corpus import ClusterColumns
from loglinear.scale.cluster.engine import PATIENCE, Cluster, open_cluster
from loglinear.scale.cluster.groups import Report
from loglinear.scale.cluster.source import pieces_of


class DaskTagger:
    """A :class:`~loglinear.Tagger` that learns on a Dask cluster.

    The model is the same to the last bit for any number of workers; with ``optimizer="lbfgs"``, ``m-estimation`` and
    ``hmm`` it is also that of a tagger on one machine.

    Parameters
    ----------
    client : distributed.Client, str, Cluster or None
        A client, ``tcp://HOST:PORT`` of a scheduler, or ``local:N`` for N processes on this machine; None is the
        current client.
    patience : float
        Seconds to wait for a worker while there is none.
    **options
        Those of :class:`~loglinear.Tagger`.

    Attributes
    ----------
    client_
        The client that the last training used.
    report_ : Report
        How the last training went: workers, passes, bytes exchanged, workers lost.
    classes_, model_, objective_, n_iter_, ...
        As of a tagger.

    Examples
    --------
    >>> tagger = DaskTagger(template="ner", l2=1.0, client=client)         # doctest: +SKIP
    >>> tagger.fit("s3://bucket/train-*.txt.gz")                           # doctest: +SKIP
    >>> tagger.predict(dask.bag.from_sequence(sentences)).compute()        # doctest: +SKIP
    >>> tagger.to_local().save("ner.model")                                # doctest: +SKIP
    """

    report_: Report

    def __init__(self, *, client: Any = None, patience: float = PATIENCE, **options: Any) -> None:
        self.client, self.patience = client, patience
        self._tagger = Tagger(**options)

    def fit(
        self,
        source: Any,
        *,
        format: str = "auto",
        tokens: Any = None,
        labels: str | None = None,
        sentence: str | None = None,
        label_column: int = -1,
        observe_reading: Callable[[int, int], None] | None = None,
        say: Callable[[str], None] | None = None,
        **keywords: Any,
    ) -> Self:
        """Train.

        Parameters
        ----------
        source : str, path, list of these, dask.bag.Bag or dask.dataframe.DataFrame
            Files, globs, folders and URLs that fsspec opens; a bag of sentences, which are lists of rows with the label
            last, or pairs (tokens, labels); a data frame, a row a sentence or a row a token.
        format : str
            Of the files.
        tokens, labels, sentence : str
            Of a data frame: the columns of tokens (several: a list), of labels, and, if a row is a token, the one that
            names the sentence. A partition holds whole sentences.
        label_column : int
            Of files and bags.
        observe_reading, say : callable, optional
            Are told how many parts are read, and what training is going to take.
        **keywords
            Those of :meth:`Tagger.fit`: ``X_dev``, ``sample_weight``, ``init``, ``partial``, ``checkpoint``, ...
        """
        self._tagger.check_options()
        named = {"tokens": tokens, "labels": labels, "sentence": sentence}
        naming = {name: value for name, value in named.items() if value is not None}
        pieces = pieces_of(source, format=format, **naming)
        with ExitStack() as stack:
            cluster = open_cluster(self.client, patience=self.patience)
            if not isinstance(self.client, Cluster):
                stack.callback(cluster.close)
            self.client_ = getattr(cluster, "client", cluster)
            corpus = ClusterColumns.read(cluster, pieces, label_column, observe_reading)
            corpus.say = say
            stack.callback(corpus.release)
            self._tagger.fit(corpus, label_column=label_column, **keywords)
        self.report_ = corpus.report
        return self

    def predict(self, collection: Any, **how: Any) -> Any:
        """Labels of a Dask bag or data frame, lazily, as the same kind of collection.

        Sentences that are in this process are labelled here.
        """
        if not hasattr(collection, "__dask_graph__"):
            return self._tagger.predict(collection, **how)
        from loglinear.scale.collections import predict

        return predict(self.to_local(), collection, **how)

    def to_local(self) -> Tagger:
        """The trained tagger, which needs no cluster."""
        self._tagger._fitted()
        return self._tagger

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file of the trained tagger."""
        self.to_local().save(os.fspath(path))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All options, by scikit-learn's conventions."""
        return {**self._tagger.get_params(deep), "client": self.client, "patience": self.patience}

    def set_params(self, **params: Any) -> Self:
        """Set options by name."""
        for name in ("client", "patience"):
            if name in params:
                setattr(self, name, params.pop(name))
        self._tagger.set_params(**params)
        return self

    def __getattr__(self, name: str) -> Any:
        """Options and results of the tagger."""
        if name.startswith("__") or name == "_tagger":
            raise AttributeError(name)
        return getattr(self._tagger, name)

    def __repr__(self) -> str:
        return repr(self._tagger).replace("Tagger", "DaskTagger", 1)
