"""Charts are well-formed SVG that says what is in it, the same each time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np

from loglinear.experiments.charts import Line, Mark, line_chart, table_chart


def test_a_line_chart_names_its_lines_and_is_the_same_each_time():
    def draw() -> str:
        lines = [Line("training error", [0.1, 1, 10], [1, 2, 3], [0.1, 0.2, 0.1]), Line("test error", [0.1, 1], [3, 2])]
        return line_chart("Errors <1>", "lambda", "error", lines, log_x=True, marks=[Mark("best", 1.0)])

    chart = draw()
    ElementTree.fromstring(chart)
    assert all(text in chart for text in ("training error", "test error", "Errors &lt;1&gt;", "best", "lambda"))
    assert chart == draw()


def test_names_may_stand_beside_the_lines():
    def right_edge_and_names(**more) -> tuple[float, list[float]]:
        lines = [Line("one name", [1, 2], [1, 2]), Line("another name", [1, 2], [2, 1])]
        chart = line_chart("Lines", "x", "y", lines, **more)
        frame = re.search(r'id="patch_2">\s*<path d="M [\d.]+ [\d.]+ \s*L ([\d.]+)', chart)
        return float(frame[1]), [float(x) for x in re.findall(r'x="([\d.]+)"[^>]*>(?:one|another) name<', chart)]

    edge, names = right_edge_and_names(names_beside=True)
    assert len(names) == 2 and all(x > edge for x in names)
    edge, names = right_edge_and_names()
    assert all(x < edge for x in names)


def test_a_table_chart_shows_its_numbers():
    chart = table_chart("Confusion", ["A", "B"], ["A", "B"], np.array([[17, 3], [0, 29]]), "predicted", "gold")
    ElementTree.fromstring(chart)
    assert all(f">{number}<" in chart for number in (17, 3, 29))
