"""Room 7, how good: scores of predictions against gold."""

from loglinear.evaluation.brackets import BracketReport, bracket_counts, bracket_scores
from loglinear.evaluation.chunks import ChunkReport, chunk_counts, chunk_scores
from loglinear.evaluation.labels import LabelReport, Score, accuracy_report, flat_accuracy
from loglinear.evaluation.significance import paired_bootstrap

__all__ = [
    "BracketReport",
    "ChunkReport",
    "LabelReport",
    "Score",
    "accuracy_report",
    "bracket_counts",
    "bracket_scores",
    "chunk_counts",
    "chunk_scores",
    "flat_accuracy",
    "paired_bootstrap",
]
