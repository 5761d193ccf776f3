"""From what users hand over to corpora, encoders and annotations, with errors that name the place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Attributes, Columns
from loglinear.errors import DataError, OptionError
from loglinear.estimators.annotation import Annotation
from loglinear.evaluation.chunks import chunk_scores
from loglinear.features.encoding import EncodedCorpus, runs
from loglinear.features.gazetteer import Gazetteer
from loglinear.features.hashed_encoder import Buckets, HashedNameEncoder, HashedTemplateEncoder
from loglinear.features.name_encoder import NameEncoder
from loglinear.features.python_features import attributes_of
from loglinear.features.sets import SETS, load_template
from loglinear.features.template import TemplateSet
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.structures.chain import Chain
from loglinear.structures.chain_features import Penalties
from loglinear.structures.constraints import Constraints, constraints_named
from loglinear.structures.gold import Gold

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Corpus = Columns | Attributes
Encoder = TemplateEncoder | NameEncoder
FEASIBILITY_BLOCK = 1 << 12  # positions whose labels are checked together


def corpus_of(X: Any, as_rows: bool) -> Corpus:
    """The user's sequences as a corpus: of token rows, or of features."""
    if isinstance(X, Columns | Attributes):
        if isinstance(X, Columns) and not as_rows:
            raise OptionError(f"{X.name} holds columns, and columns need a template: {', '.join(SETS)}, or your own")
        if isinstance(X, Attributes) and as_rows:
            raise OptionError(f"{X.name} holds ready-made features, but the model looks at columns")
        return X
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__"):
        raise DataError(f"X is a {type(X).__name__}, not a list of sequences")
    return Columns.from_rows(X) if as_rows else attributes_of(X)


def annotation_of(
    corpus: Corpus, y: Any, label_column: int = -1, partial: bool = False, remedy: str = ""
) -> Annotation:
    """Labels given apart, or those of the corpus itself; where it has none, the error ends with ``remedy``."""
    if y is not None:
        return Annotation.from_python(y, corpus.offsets)
    if isinstance(corpus, Columns):
        if label_column == -1 and corpus.unlabelled is not None:
            raise DataError(f"this sentence has no labels{remedy}", corpus.name, corpus.unlabelled)
        if not len(corpus):
            return Annotation.unknown(0)
        if corpus.n_columns < 2:
            line = int(corpus.lines[0]) if corpus.n_tokens and corpus.lines[0] else None
            raise DataError(f"there is only one column: the label column is missing{remedy}", corpus.name, line)
        return Annotation.from_column(corpus.column(label_column), partial, lambda t, message: corpus.error(message, t))
    if corpus.label is not None:
        return Annotation.from_column(corpus.label, partial, lambda t, message: corpus.error(message, t))
    raise DataError("y is missing: give the labels of each sequence")


def encoder_for(
    corpus: Corpus,
    template: str | Path | TemplateSet | None,
    gazetteers: Sequence[Gazetteer | str | Path],
    pair_features: bool,
    label_column: int | None,
    hash_bits: int | None = None,
) -> Encoder:
    """A new encoder for the corpus; ``label_column`` (None: labels come apart) is one the template must not look at.

    With ``hash_bits``, one that hashes attributes into so many bits.
    """
    buckets = None if hash_bits is None else Buckets(hash_bits)
    if isinstance(corpus, Attributes):
        if gazetteers:
            raise OptionError("gazetteers need tokens and a template; the data comes as ready-made features")
        return NameEncoder(pair_features) if buckets is None else HashedNameEncoder(pair_features, buckets)
    if isinstance(gazetteers, str | Path):
        raise OptionError("gazetteers is a list of Gazetteer objects or files; put the one you have in a list")
    read = [g if isinstance(g, Gazetteer) else Gazetteer.read(g) for g in gazetteers]
    by_name = {gazetteer.name: gazetteer for gazetteer in read}
    if len(by_name) != len(read):
        raise OptionError(f"two gazetteers have the same name: {', '.join(sorted(g.name for g in read))}")
    if template is None:
        raise OptionError(f"columns need a template: one of {', '.join(SETS)}, or your own")
    templates = load_template(template, corpus.n_columns - (label_column is not None), by_name)
    if unused := set(by_name) - templates.gazetteers:
        name = sorted(unused)[0]
        raise OptionError(f"the template does not look at the gazetteer {name!r}; add a line U:%gazetteer[0,0,{name}]")
    if label_column is not None and label_column % corpus.n_columns in templates.columns:
        raise OptionError(
            f"the template looks at column {label_column % corpus.n_columns} (from 0) of {corpus.name}, which "
            "holds the labels to be learnt"
        )
    if buckets is not None:
        return HashedTemplateEncoder(templates, by_name, pair_features, buckets)
    return TemplateEncoder(templates, by_name, pair_features)


def constraints_of(constraints: str | Constraints | dict[str, Any] | None, labels: list[str]) -> Constraints | None:
    """Constraints by name, as an object, or as the dict a model file keeps."""
    if constraints is None or isinstance(constraints, Constraints):
        return constraints
    if isinstance(constraints, dict):
        return Constraints.from_dict(constraints)
    if not isinstance(constraints, str):
        raise OptionError(
            f"constraints={constraints!r:.60} is not the name of a scheme, Constraints or a dict of rules"
        )
    return constraints_named(constraints, labels)


def _feasible(offsets: Int64, gold: Gold, penalties: Penalties) -> npt.NDArray[np.bool_]:
    """Which of the sequences with these ``offsets`` the constraints leave a labelling that the annotation allows."""
    lo, hi = int(offsets[0]), int(offsets[-1])
    chain, scores = Chain(offsets - lo), penalties.scores(hi - lo)
    part = gold.slice(lo, hi)
    if part.allowed is None:
        possible = chain.score(scores, part.labels)
    else:
        possible = chain.log_partition(chain.restrict(scores, part.allowed))
    return np.asarray(possible > -np.inf)


def check_feasible(encoded: EncodedCorpus, gold: Gold, penalties: Penalties, corpus: Corpus) -> None:
    """Refuse training labels that the constraints rule out, naming the place."""
    possible = np.concatenate([
        _feasible(encoded.offsets[first : end + 1], gold, penalties)
        for first, end in runs(encoded.offsets, 0, encoded.n_sequences, FEASIBILITY_BLOCK)
    ])  # fmt: skip
    if possible.all():
        return
    first, end = encoded.offsets[int(np.argmin(possible)) :][:2].tolist()
    labels = gold.labels[first:end]
    place = 0
    if (labels >= 0).all() and penalties.start[labels[0]] == 0.0:
        broken = np.flatnonzero(penalties.transition[labels[:-1], labels[1:]] == -np.inf)
        place = int(broken[0]) + 1 if len(broken) else len(labels) - 1
    if (labels < 0).any():
        message = (
            "no labelling of this sequence fits both its partial labels and the constraints (a label that stands "
            "nowhere in the training data cannot be chosen); mend the data or train without constraints"
        )
    else:
        message = "the label here breaks the constraints; mend the data or train without them"
    raise corpus.error(message, first + place)


def score_labels(metric: str, annotation: Annotation, predicted: Int32, labels: list[str], offsets: Int64) -> float:
    """Accuracy or chunk F1, from 0 to 1, of predicted label numbers [N].

    A gold label the model lacks is never met; accuracy passes over tokens whose label is not settled.
    """
    settled = annotation.settled
    if metric == "accuracy":
        right = annotation.known_only(labels)[settled] == predicted[settled]
        return float(right.mean()) if len(right) else 0.0
    if not settled.all():
        raise annotation.place(int(np.argmin(settled)), "F1 needs one gold label for each token")
    values = [*labels, *sorted(annotation.label_names() - set(labels))]
    return chunk_scores((annotation.known_only(values), values, offsets), (predicted, values, offsets)).f1 / 100.0
