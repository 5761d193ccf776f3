"""Named template sets, written in the template language, so that users can print one, change it and use it.

``chunking``  Sha & Pereira's 19 input predicates (2003, table 2): words and tags around the position. Columns 0 and 1.
``pos``       words, affixes, shapes: for parts of speech and other labels of single words. Column 0.
``ner``       words, tags if there is a column of tags, affixes, shapes, tests, gazetteers: for names and other spans.
``words``     the bare minimum: the words from two before to two after, and adjacent pairs. Column 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from loglinear.errors import OptionError, TemplateError
from loglinear.features.templates.language import TemplateSet, with_numbers

WORDS = """\
# the words around
U00:%x[-2,0]
U01:%x[-1,0]
U02:%x[0,0]
U03:%x[1,0]
U04:%x[2,0]
U05:%x[-1,0]/%x[0,0]
U06:%x[0,0]/%x[1,0]
"""

TAGS = """\
# the tags around: single, pairs, triples
U10:%x[-2,1]
U11:%x[-1,1]
U12:%x[0,1]
U13:%x[1,1]
U14:%x[2,1]
U15:%x[-2,1]/%x[-1,1]
U16:%x[-1,1]/%x[0,1]
U17:%x[0,1]/%x[1,1]
U18:%x[1,1]/%x[2,1]
U20:%x[-2,1]/%x[-1,1]/%x[0,1]
U21:%x[-1,1]/%x[0,1]/%x[1,1]
U22:%x[0,1]/%x[1,1]/%x[2,1]
"""

FORMS = """\
# the form of the word
U30:%lower[0,0]
U31:%Prefix[0,0,1]
U32:%Prefix[0,0,2]
U33:%Prefix[0,0,3]
U34:%Prefix[0,0,4]
U35:%Suffix[0,0,1]
U36:%Suffix[0,0,2]
U37:%Suffix[0,0,3]
U38:%Suffix[0,0,4]
U40:%brief[0,0]
U41:%t[0,0,"^\\u"]
U42:%t[0,0,"\\d"]
U43:%t[0,0,"-"]
"""

NAMES = """\
# names: shapes of the word and its neighbours, case and digits
U50:%shape[0,0]
U51:%brief[-1,0]
U52:%brief[1,0]
U53:%brief[-1,0]/%brief[0,0]
U54:%brief[0,0]/%brief[1,0]
U55:%brief[-1,0]/%brief[0,0]/%brief[1,0]
U56:%t[0,0,"^\\u+$"]
U57:%t[0,0,"^\\u[\\l'-]+$"]
U58:%t[0,0,"^\\d+$"]
U59:%t[0,0,"^\\u\\.$"]
U60:%lower[-1,0]
U61:%lower[1,0]
U62:%x[-1,0]/%brief[0,0]
U63:%brief[0,0]/%x[1,0]
"""

LABELS = """\
# the pair of labels
B
"""

SETS = ("chunking", "pos", "ner", "words")


def _gazetteer_lines(names: Iterable[str]) -> str:
    lines = "".join(f"U{70 + row + 1}-{name}:%Gazetteer[{row},0,{name}]\n" for name in names for row in (-1, 0, 1))
    return f"# known names\n{lines}" if lines else ""


def template_text(name: str, n_columns: int = 2, gazetteers: Iterable[str] = ()) -> str:
    """The text of a named set.

    Parameters
    ----------
    name : str
        One of :data:`SETS`.
    n_columns : int
        Columns besides the label; ``ner`` uses a second one as tags.
    gazetteers : iterable of str
        Names of gazetteers to use as well.
    """
    if name not in SETS:
        raise OptionError(f"there is no template set {name!r}; the sets are {', '.join(SETS)}")
    tags = TAGS if n_columns > 1 else ""
    more = {"chunking": TAGS, "pos": FORMS, "ner": tags + FORMS + NAMES, "words": ""}[name]
    return WORDS + more + _gazetteer_lines(gazetteers) + LABELS


def load_template(
    given: str | Path | TemplateSet,
    n_columns: int = 2,
    gazetteers: Iterable[str] = (),
    names: Sequence[str] | None = None,
) -> TemplateSet:
    """Templates from a user's argument: a TemplateSet, a template's text, the name of a set, or a file.

    A string with a line break or a macro is text; the name of a set has precedence over a file of the same name.
    ``names`` are those of the columns, which a text or a file may use in place of numbers.
    """
    if isinstance(given, TemplateSet):
        return given
    if isinstance(given, str) and ("\n" in given or "%" in given):
        return TemplateSet.parse(with_numbers(given, names or ()))
    if isinstance(given, str) and given in SETS:
        return named_set(given, n_columns, gazetteers)
    if not isinstance(given, str | Path):
        raise OptionError(
            f"template is a {type(given).__name__}; give the name of a set ({', '.join(SETS)}), a template's text, "
            "a file or a TemplateSet"
        )
    return TemplateSet.parse(with_numbers(template_file(given), names or (), str(given)), str(given))


def template_file(given: str | Path) -> str:
    """The text of a template file."""
    try:
        return Path(given).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise TemplateError(f"{given}: no such template file; the named sets are {', '.join(SETS)}") from None
    except OSError as error:
        raise TemplateError(f"{given}: the template file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TemplateError(f"{given}: the template file is not valid UTF-8") from None


def named_set(name: str, n_columns: int = 2, gazetteers: Iterable[str] = ()) -> TemplateSet:
    """A named set as an object; arguments as for :func:`template_text`."""
    return TemplateSet.parse(template_text(name, n_columns, gazetteers), name)
