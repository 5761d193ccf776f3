"""The papers' figures as plain data, kept with the results, and drawn from there."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from loglinear.experiments.charts import COLOURS, Line, drawing, line_chart

MARKERS = "os^Dv*"  # lines that lie on each other are told apart by these too


@dataclass
class Chart:
    """A figure.

    Parameters
    ----------
    name : str
        Of the file.
    title, x_label, y_label : str
    lines : list of dict
        ``name``, ``x`` and ``y`` of each line; for bars, one line whose ``x`` are the bars' names.
    kind : {"lines", "bars"}
    log_x : bool
    note : str
        What to say below it.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    lines: list[dict[str, Any]] = field(default_factory=list)
    kind: str = "lines"
    log_x: bool = False
    note: str = ""

    def svg(self) -> str:
        """The drawing."""
        if self.kind == "lines":
            marked = zip(self.lines, cycle(MARKERS))
            lines = [Line(line["name"], line["x"], line["y"], marker=marker) for line, marker in marked]
            return line_chart(self.title, self.x_label, self.y_label, lines, log_x=self.log_x, names_beside=True)
        with drawing(self.title, self.x_label, self.y_label) as (axes, done):
            names, lengths = self.lines[0]["x"], self.lines[0]["y"]
            places = range(len(names), 0, -1)
            bars = axes.barh(places, lengths, color=COLOURS[0], height=0.6)
            axes.set_yticks(places, names)
            axes.grid(False, axis="y")
            if self.log_x:
                axes.set_xscale("log")
            axes.bar_label(bars, labels=self.lines[0]["labels"], padding=4, fontsize=9)
            axes.margins(x=0.15)
        return done[0]
