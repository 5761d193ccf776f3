"""The programs of a page of the guide."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def run_guide(heading, page="spacy.md"):
    """Run the programs under a heading of a page; what they define."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    programs = re.findall(r"```python\n(.*?)```", section[1], re.DOTALL)
    defined: dict = {}
    for program in programs:
        exec(program, defined)
    return defined
