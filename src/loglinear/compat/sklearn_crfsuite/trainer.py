"""A trainer that prints a line for each iteration."""

from __future__ import annotations

from typing import Any

from loglinear.compat.pycrfsuite import Trainer


class LinePerIterationTrainer(Trainer):
    """A trainer whose log has a line for each iteration, and a table of the holdout data's labels at the end."""

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        """Print what the iteration did."""
        parts = [f"Iter {info['num']:<3} ", f"time={info['time']:<5.2f} ", f"loss={info['loss']:<8.2f} "]
        if "active_features" in info:
            parts.append(f"active={info['active_features']:<5} ")
        if "avg_precision" in info:
            parts.append("precision={avg_precision:0.3f}  recall={avg_recall:0.3f}  F1={avg_f1:0.3f}  ".format(**info))
            parts.append("Acc(item/seq)={item_accuracy_float:0.3f} {instance_accuracy_float:0.3f}  ".format(**info))
        if "feature_norm" in info:
            parts.append(f"feature_norm={info['feature_norm']:<8.2f}")
        print("".join(parts).strip())

    def on_optimization_end(self, log: str) -> None:
        """Print how each label of the holdout data was predicted at last."""
        last = None if self.logparser is None else self.logparser.last_iteration
        if last and last.get("scores"):
            print(_table(last["scores"]))
        super().on_optimization_end(log)


def _table(scores: dict[str, Any]) -> str:
    """Precision, recall and F1 of each label."""
    width = max(len("Label"), *map(len, scores))
    head = f"{'Label':<{width}}    Precision    Recall     F1    Support"
    rows = []
    for label, score in sorted(scores.items()):
        shares = [f"{0.0 if share is None else share:.3f}" for share in (score.precision, score.recall, score.f1)]
        rows.append(f"{label:<{width}}  {shares[0]:>11}  {shares[1]:>8}  {shares[2]:>5}  {score.ref:>9}")
    return "\n".join(["=" * len(head), head, "-" * len(head), *rows, "-" * len(head)])
