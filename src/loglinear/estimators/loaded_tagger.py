"""A model file to label with: what the command line needs, without the second that importing scikit-learn takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from loglinear import model_file
from loglinear.errors import ModelFileError
from loglinear.estimators import base_file, tagger_file
from loglinear.estimators.chain_model import ChainModel
from loglinear.estimators.chain_predictor import ChainPredictor
from loglinear.estimators.options import check_options


class LoadedTagger(ChainPredictor):
    """What :class:`loglinear.Tagger` predicts, for a model of a file; it cannot be trained on.

    Parameters
    ----------
    model : ChainModel
    threads : int or None
        All cores if None.
    """

    def __init__(self, model: ChainModel, threads: int | None = None) -> None:
        self.model_ = model.with_weights(np.asarray(model.weights, dtype=np.float64))
        self.classes_ = list(model.labels)
        self.threads = threads

    @classmethod
    def load(cls, path: str | Path, threads: int | None = None) -> LoadedTagger:
        """Read a model file, with the errors that ``Tagger.load`` has."""
        stored = model_file.load(path, kind=tagger_file.KIND)
        base_file.own_base(stored.header, None, str(path))  # refuses a base that only Python can give
        model = tagger_file.from_storage(stored.header, stored.arrays, str(path))
        try:
            check_options(dict(stored.header["options"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{path}: the model's options cannot be read ({error}); train anew") from None
        return cls(model, threads)
