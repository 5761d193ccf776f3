"""Drawings of trees: in box characters for a terminal, and as SVG.

Each subtree is as wide as its label or as its children side by side, whichever is wider; a node is centred above its
first and last child. Each depth of the tree is a row, and words are below their tags::

              ROOT
               │
               S
         ┌─────┴──┐
         NP       VP
       ┌─┴──┐     │
       DT   NN   VBD
       │    │     │
      the  dog   ran

A tree that is too wide for the terminal is drawn as an outline instead, one node per line.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from xml.sax.saxutils import escape

from loglinear.data.trees.tree import Tree

GAP = 2  # cells between neighbours


@dataclass(slots=True)
class _Drawing:
    """Nodes and words as boxes, a parent before its children: texts, depths, centres (in cells), and children."""

    texts: list[str]
    depths: list[int]
    children: list[list[int]]
    centres: list[float]
    width: float


def text_width(text: str) -> int:
    """Cells that a text takes in a terminal: two for wide characters, none for combining ones."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _drawing(tree: Tree) -> _Drawing:
    texts: list[str] = []
    depths: list[int] = []
    children: list[list[int]] = []
    stack: list[tuple[Tree | str, int, int]] = [(tree, -1, 0)]
    while stack:
        item, parent, depth = stack.pop()
        number = len(texts)
        texts.append(item if isinstance(item, str) else item.label)
        depths.append(depth)
        children.append([])
        if parent >= 0:
            children[parent].append(number)
        if isinstance(item, Tree):
            inner: tuple[Tree | str, ...] = item.children if item.word is None else (item.word,)
            stack.extend((child, number, depth + 1) for child in reversed(inner))
    widths, insides = [0.0] * len(texts), [0.0] * len(texts)  # of a subtree, and of its children side by side
    for number in range(len(texts) - 1, -1, -1):
        insides[number] = sum(widths[child] + GAP for child in children[number]) - GAP
        widths[number] = max(text_width(texts[number]), insides[number])
    lefts = [0.0] * len(texts)
    for number, below in enumerate(children):
        left = lefts[number] + (widths[number] - insides[number]) / 2
        for child in below:
            lefts[child] = left
            left += widths[child] + GAP
    centres = [0.0] * len(texts)
    for number in range(len(texts) - 1, -1, -1):
        below = children[number]
        middle = lefts[number] + widths[number] / 2
        half = text_width(texts[number]) / 2
        if below:  # above its children, but not so far that its label leaves its place
            wanted = (centres[below[0]] + centres[below[-1]]) / 2
            middle = min(max(wanted, lefts[number] + half), lefts[number] + widths[number] - half)
        centres[number] = middle
    return _Drawing(texts, depths, children, centres, widths[0])


def draw(tree: Tree, width: int | None = None) -> str:
    """The tree in box characters, ending in a line feed.

    Parameters
    ----------
    tree : Tree
    width : int, optional
        Cells of the terminal: a wider tree becomes an outline. Without it every tree is drawn as a tree.
    """
    drawing = _drawing(tree)
    if width is not None and drawing.width > width:
        return outline(tree)
    n_rows = 2 * max(drawing.depths) + 1
    rows: list[dict[int, str]] = [{} for _ in range(n_rows)]  # text by its first cell
    columns = [int(centre) for centre in drawing.centres]
    for number, text in enumerate(drawing.texts):
        row = 2 * drawing.depths[number]
        rows[row][columns[number] - text_width(text) // 2] = text
        below = drawing.children[number]
        if not below:
            continue
        places = {columns[child] for child in below}
        first, last, here = min(places), max(places), columns[number]
        cells = set(range(min(first, here), max(last, here) + 1))
        for cell in cells:
            rows[row + 1][cell] = _joint(cell > min(cells), cell < max(cells), cell == here, cell in places)
    return "".join(_row(row) + "\n" for row in rows)


def _joint(left: bool, right: bool, up: bool, down: bool) -> str:
    """The box character with lines to these sides."""
    if not left and not right:
        return "│"
    both_sides, to_left, to_right = ("┼┤├" if down else "┴┘└") if up else ("┬┐┌" if down else "───")
    return both_sides if left and right else to_left if left else to_right


def _row(texts: dict[int, str]) -> str:
    parts, cell = [], 0
    for first in sorted(texts):
        parts.append(" " * (first - cell) + texts[first])
        cell = max(first, cell) + text_width(texts[first])
    return "".join(parts)


def outline(tree: Tree) -> str:
    """The tree with one node per line, children below their parent, ending in a line feed."""
    lines: list[str] = []
    stack: list[tuple[Tree, str, str]] = [(tree, "", "")]
    while stack:
        node, before, margin = stack.pop()
        lines.append(before + node.label + ("" if node.word is None else " " + node.word))
        last = len(node.children) - 1
        for place in range(last, -1, -1):
            corner, below = ("└─ ", "   ") if place == last else ("├─ ", "│  ")
            stack.append((node.children[place], margin + corner, margin + below))
    return "\n".join(lines) + "\n"


def draw_svg(tree: Tree, size: float = 16.0) -> str:
    """The tree as a self-contained SVG document; ``size`` is the font size in pixels."""
    drawing = _drawing(tree)
    cell, row = 0.62 * size, 2.6 * size
    width = cell * drawing.width + 2 * size
    height = row * max(drawing.depths) + 2.6 * size
    xs = [size + cell * centre for centre in drawing.centres]
    ys = [1.6 * size + row * depth for depth in drawing.depths]
    lines, labels = [], []
    for number, text in enumerate(drawing.texts):
        for child in drawing.children[number]:
            lines.append(f"M{xs[number]:.1f} {ys[number] + 0.4 * size:.1f}L{xs[child]:.1f} {ys[child] - size:.1f}")
        kind = "label" if drawing.children[number] else "word"
        labels.append(f'<text class="{kind}" x="{xs[number]:.1f}" y="{ys[number]:.1f}">{_printable(text)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">\n'
        f"<title>{_printable(' '.join(tree.leaves()))}</title>\n"
        f"<style>text{{font:{size:g}px ui-monospace,Menlo,Consolas,monospace;text-anchor:middle;fill:#1a4f8b}}"
        ".word{fill:#222}path{stroke:#888;fill:none}"
        "@media(prefers-color-scheme:dark){text{fill:#8ec1ff}.word{fill:#eee}}</style>\n"
        f'<path d="{"".join(lines)}"/>\n' + "\n".join(labels) + "\n</svg>\n"
    )


def _printable(text: str) -> str:
    """Text for XML, which cannot hold control characters and lone surrogates."""
    return escape("".join(c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}" for c in text))
