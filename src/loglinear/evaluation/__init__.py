"""Room 7, how good: scores of predictions against gold."""

from loglinear.evaluation.chunks import ChunkReport, chunk_scores
from loglinear.evaluation.labels import LabelReport, Score, accuracy_report, flat_accuracy

__all__ = ["ChunkReport", "LabelReport", "Score", "accuracy_report", "chunk_scores", "flat_accuracy"]
