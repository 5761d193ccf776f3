"""The tables of options in docs/api.md are those of the declarations.

``python tests/test_api_page.py`` writes them again.
"""

import inspect
import re
from pathlib import Path

import pytest

from loglinear.estimators import options as estimators
from loglinear.options import declared

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
TABLE = re.compile(r"<!-- options of (\w+), from their declarations -->\n(.*?)<!-- end -->\n", re.DOTALL)
ON_THE_COMMAND_LINE = ("Tagger", "Combination", "Classifier", "DependencyParser", "Parser", "Mixture")
CLASSES = {
    "Tagger": estimators.TaggerOptions,
    "Combination": estimators.CombinationOptions,
    "LocalTagger": estimators.LocalTaggerOptions,
    "HMM": estimators.HMMOptions,
    "NaiveBayes": estimators.NaiveBayesOptions,
    "Mixture": estimators.MixtureOptions,
    "Classifier": estimators.ClassifierOptions,
    "Ridge": estimators.RidgeOptions,
    "LeastSquares": estimators.LeastSquaresOptions,
    "DependencyParser": estimators.DependencyOptions,
    "Parser": estimators.ParserOptions,
}


def values(each):
    """What an option may be, in a few words."""
    if each.is_switch:
        return " or ".join(["bool", *(f"`{word!r}`" for word in each.words)])
    kind = {int: "int", float: "float"}.get(each.kind, each.annotation.removesuffix(" | None"))
    if each.choices:
        kind = ", ".join(f"`{choice!r}`" for choice in each.choices)
    elif kind == "Any":
        kind = ""
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (("from", each.least), ("above", each.above), ("to", each.most))
        if bound is not None
    ]
    none = ["or `None`"] if each.may_be_none and each.default is not None else []
    return " ".join([kind, *bounds, *none]).strip()


def table(estimator):
    """The options of an estimator, a row each."""
    flags = estimator in ON_THE_COMMAND_LINE
    rows = [["option", "default", "values", *(["command line"] if flags else []), ""]]
    rows.append(["---"] * len(rows[0]))
    known = declared(CLASSES[estimator])
    for name in inspect.signature(CLASSES[estimator]).parameters:
        each = known[name]
        text = f"{each.help}. {each.in_python}".strip().removesuffix(".")
        default = f"`{each.default!r}`" if "MISSING" not in repr(each.default) else ""
        row = [f"`{name}`", default, values(each)]
        if flags:
            flag = each.flags[-1] if each.flags else f"--{name.replace('_', '-')}"
            row.append("" if each.python_only else f"`{flag}`")
        rows.append([*row, text])
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


@pytest.mark.parametrize("estimator", CLASSES)
def test_the_page_says_what_is_declared(estimator):
    found = dict(TABLE.findall(PAGE.read_text(encoding="utf-8")))
    assert found.get(estimator) == table(estimator), "python tests/test_api_page.py writes the tables"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    made = TABLE.sub(lambda found: found[0].partition("\n")[0] + f"\n{table(found[1])}<!-- end -->\n", text)
    PAGE.write_text(made, encoding="utf-8")
