"""Scores of predictions against gold."""

from loglinear.evaluation.brackets import BracketReport, bracket_counts, bracket_scores
from loglinear.evaluation.calibration import Calibration, calibration
from loglinear.evaluation.chunks import ChunkReport, chunk_counts, chunk_scores
from loglinear.evaluation.labels import LabelReport, Score, accuracy_report, confusions, flat_accuracy, label_counts
from loglinear.evaluation.paired import (
    Difference,
    PairedReport,
    paired_attachments,
    paired_brackets,
    paired_labels,
    paired_rows,
)
from loglinear.evaluation.significance import holm, mcnemar, paired_bootstrap, paired_t_test

__all__ = [
    "BracketReport",
    "Calibration",
    "ChunkReport",
    "Difference",
    "LabelReport",
    "PairedReport",
    "Score",
    "accuracy_report",
    "bracket_counts",
    "bracket_scores",
    "calibration",
    "chunk_counts",
    "chunk_scores",
    "confusions",
    "flat_accuracy",
    "holm",
    "label_counts",
    "mcnemar",
    "paired_attachments",
    "paired_bootstrap",
    "paired_brackets",
    "paired_labels",
    "paired_rows",
    "paired_t_test",
]
