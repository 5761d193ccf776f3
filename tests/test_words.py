"""The text of the package and its documentation avoids turns of phrase that make a reader stop."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")])

STILTED = re.compile(
    r"\b(?:of then|of now|as it was met|as they were met|gone on|anew)\b"
    r"|(?<!\bthere )\bis no (?!longer\b|more\b|such\b)[a-z]+",
    re.IGNORECASE,
)


def hits(text: str) -> list[str]:
    """The stilted turns of ``text``, where a line break and the margin of the next line count as a space."""
    return [match[0] for match in STILTED.finditer(re.sub(r"\s+(?:#:? )?\s*", " ", text))]


def test_texts_are_there():
    assert any(path.suffix == ".py" for path in FILES)
    assert any(path.suffix == ".md" for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_stilted_turns(path: Path):
    assert hits(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text", ["the weights of\n    then", "begin anew", "x is no\n# number", "has gone on", "as it was met"]
)
def test_stilted_turns_are_found(text: str):
    assert len(hits(text)) == 1


@pytest.mark.parametrize(
    "text", ["there is\nno label", "There is no label", "it is no longer so", "is no such file", "of nowhere"]
)
def test_plain_turns_are_not(text: str):
    assert hits(text) == []
