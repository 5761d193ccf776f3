"""Maximum entropy with feature maps of a user's own (Zhang, 9.12): from functions to numbers, and a trained model.

    s(y) = w . z(x, y)        for the candidates y of x        p(y) = exp s(y) / sum over candidates

``feature_map(x, y)`` gives z as names or a dict, by the rules of Python features; ``candidates(x)`` the labels that x
may have, all of them without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from loglinear.data.columns import offsets_of
from loglinear.errors import DataError, OptionError
from loglinear.features.name_encoder import NameEncoder
from loglinear.features.python_features import AttributeLists
from loglinear.structures.candidate_features import CandidateCorpus, CandidateFeatures

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Labels = npt.NDArray[Any]
KIND = "candidates"


@dataclass(frozen=True)
class CandidateEncoder:
    """What turns examples into candidates with features.

    Parameters
    ----------
    feature_map : callable
        From an example and a label to features.
    candidates : callable, optional
        From an example to its labels.
    names : NameEncoder
        The features' names.
    """

    feature_map: Callable[[Any, Any], Any]
    candidates: Callable[[Any], Iterable[Any]] | None
    names: NameEncoder

    @classmethod
    def fit(
        cls, feature_map: Any, candidates: Any, examples: list[Any], y: Labels, min_count: int
    ) -> tuple[CandidateEncoder, Labels, CandidateCorpus]:
        """The encoder, the labels [Y] (those of ``y`` [S] and of all candidates) and the training examples."""
        encoder, labels, lists = cls(feature_map, candidates, NameEncoder()), np.unique(y), None
        if candidates is not None:
            lists = [encoder._asked(i, x) for i, x in enumerate(examples)]
            for i, (own, right) in enumerate(zip(lists, y.tolist(), strict=True)):
                if right not in own:
                    raise DataError(f"example {i} (from 0): its label {right!r} is not among its candidates")
            labels = np.unique(np.array([label for own in lists for label in own], dtype=y.dtype))
        attributes, offsets, numbers = encoder._collected(examples, labels, lists)
        encoded = encoder.names.fit(attributes, min_count)
        return encoder, labels, _corpus(encoded, offsets, numbers)

    def transform(self, examples: list[Any], labels: Labels) -> CandidateCorpus:
        """Other examples; features that training did not know are left out."""
        lists = None if self.candidates is None else [self._asked(i, x) for i, x in enumerate(examples)]
        attributes, offsets, numbers = self._collected(examples, labels, lists)
        return _corpus(self.names.transform(attributes), offsets, numbers)

    def _asked(self, i: int, x: Any) -> list[Any]:
        """The candidates of an example."""
        assert self.candidates is not None
        try:
            found = list(self.candidates(x))
        except Exception as error:
            raise DataError(f"example {i} (from 0): candidates raised {type(error).__name__}: {error}") from error
        if not found or len(set(found)) != len(found):
            what = "it has a candidate twice" if found else "it has no candidates"
            raise DataError(f"example {i} (from 0): {what}")
        return found

    def _collected(self, examples: list[Any], labels: Labels, lists: list[list[Any]] | None) -> Any:
        collected, numbers, every = AttributeLists(), list[int](), labels.tolist()
        number_of = {label: number for number, label in enumerate(every)}
        for i, x in enumerate(examples):
            for label in every if lists is None else lists[i]:
                if label not in number_of:
                    raise DataError(f"example {i} (from 0): its candidate {label!r} is no label of the training data")
                numbers.append(number_of[label])
                try:
                    collected.add(self.feature_map(x, label), "candidate")
                except DataError as error:
                    raise DataError(f"example {i} (from 0), label {label!r}: {error}") from None
                except Exception as error:
                    what = f"feature_map raised {type(error).__name__}: {error}"
                    raise DataError(f"example {i} (from 0), label {label!r}: {what}") from error
        lengths = np.full(len(examples), len(every)) if lists is None else [len(own) for own in lists]
        return collected.corpus(np.arange(len(numbers) + 1, dtype=np.int64)), offsets_of(lengths), numbers


def _corpus(encoded: Any, offsets: npt.NDArray[np.int64], numbers: list[int]) -> CandidateCorpus:
    state = encoded.state
    values = np.ones(len(state.ids)) if state.values is None else state.values
    return CandidateCorpus(offsets, np.array(numbers, dtype=np.int32), state.pointer, state.ids, values)


@dataclass(frozen=True)
class CandidateModel:
    """What a classifier has learnt.

    Parameters
    ----------
    labels : array [Y]
        Sorted.
    encoder : CandidateEncoder
    weights : float64 [D]
    """

    labels: Labels
    encoder: CandidateEncoder
    weights: Float

    @property
    def features(self) -> CandidateFeatures:
        """How weights become scores."""
        return CandidateFeatures(len(self.weights), len(self.labels))

    def scores(self, corpus: CandidateCorpus) -> Float:
        """Scores [S, Y], -inf for labels that are no candidates."""
        return self.features.scores(self.weights, corpus, 0, corpus.n_sequences).labels

    def best(self, corpus: CandidateCorpus) -> npt.NDArray[np.int64]:
        """The number of each example's best candidate [S]."""
        return self.scores(corpus).argmax(axis=1)

    def log_probabilities(self, corpus: CandidateCorpus) -> Float:
        """log p [S, Y]."""
        scores = self.scores(corpus)
        return np.asarray(scores - logsumexp(scores, axis=1, keepdims=True))

    def contributions(self, corpus: CandidateCorpus) -> list[dict[str, float]]:
        """For each label what each feature of the one example adds to its score; nothing for no candidates."""
        found: list[dict[str, float]] = [{} for _ in self.labels]
        names = self.encoder.names.names()
        for c, label in enumerate(corpus.labels.tolist()):
            own = slice(int(corpus.pointer[c]), int(corpus.pointer[c + 1]))
            for i, value in zip(corpus.ids[own].tolist(), corpus.values[own].tolist(), strict=True):
                found[label][names[i]] = found[label].get(names[i], 0.0) + value * float(self.weights[i])
        return found


def functions_again(kind: str, by_function: bool, given: dict[str, Any], name: str) -> None:
    """Refuse to load a model without the functions that it was trained with, which files do not hold."""
    needed = "feature_map" if kind == KIND else "features" if by_function else None
    if needed is not None and given[needed] is None:
        raise OptionError(f"{name} was trained with a function of your own; give it again, as in {needed}=...")
    for option, value in given.items():
        if value is not None and option != needed and not (option == "candidates" and kind == KIND):
            raise OptionError(f"{name} was trained without {option}; leave it out")
