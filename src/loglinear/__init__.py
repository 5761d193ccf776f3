"""Log-linear structured models, trained from annotated text on a CPU.

>>> from loglinear import Tagger, read_columns
>>> tagger = Tagger(template="chunking").fit(read_columns("train.txt"))  # doctest: +SKIP
>>> tagger.predict([[("The", "DT"), ("pound", "NN"), ("fell", "VBD")]])  # doctest: +SKIP
[['B-NP', 'I-NP', 'B-VP']]

Importing the package is quick: what needs Numba or scikit-learn is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0.dev0"

_HOMES = {
    "Tagger": "loglinear.estimators.tagger.estimator",
    "HMM": "loglinear.estimators.tagger.hmm",
    "Combination": "loglinear.estimators.tagger.combined",
    "Parser": "loglinear.estimators.parser.estimator",
    "LocalTagger": "loglinear.estimators.tagger.local",
    "Mixture": "loglinear.estimators.mixture",
    "NaiveBayes": "loglinear.estimators.naive_bayes",
    "InputClassifier": "loglinear.estimators.tagger.hmm",
    "DependencyParser": "loglinear.estimators.dependency.estimator",
    "Classifier": "loglinear.estimators.classifier.estimator",
    "LeastSquares": "loglinear.estimators.classifier.ridge",
    "Ridge": "loglinear.estimators.classifier.ridge",
    "Constraints": "loglinear.structures.constraints",
    "Gazetteer": "loglinear.features.templates.gazetteer",
    "Macro": "loglinear.features.templates.language",
    "Summary": "loglinear.estimators.summary",
    "Template": "loglinear.features.templates.language",
    "TemplateSet": "loglinear.features.templates.language",
    "LoglinearError": "loglinear.errors",
    "chunk_scores": "loglinear.evaluation.chunks",
    "read": "loglinear.data",
    "read_attributes": "loglinear.data",
    "read_columns": "loglinear.data",
    "read_conllu": "loglinear.data",
    "read_jsonl": "loglinear.data",
    "read_text": "loglinear.data",
    "read_treebank": "loglinear.data.trees.cleaning",
    "bracket_scores": "loglinear.evaluation.brackets",
    "load": "loglinear.estimators.estimator",
    "compare": "loglinear.experiments.comparison.run",
    "tune": "loglinear.experiments.tuning.run",
    "template_text": "loglinear.features.templates.sets",
    "regularisation_path": "loglinear.experiments.path",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'loglinear' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
