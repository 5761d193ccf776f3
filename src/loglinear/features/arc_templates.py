"""What a feature of an arc looks at: templates of a view of the head and a view of the child (McDonald et al. 2005).

A *view* of a token is its word, its tag, both, its stem, or its tag with those of its neighbours. A template joins a
view of the head with one of the child, either by themselves (``plain``) or with the direction and the distance of the
arc (``far``: 1, 2, 3, 4, 5-9, 10 or more to either side). Besides there is, for each tag that stands between head and
child, the triple of the three tags with the direction.

A feature is a number of 63 bits: template, distance, view of the head, view of the child. Where a template's views are
finer than those of its *parent*, a feature of it cannot have been seen where that of the parent has not, and need not
be looked up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NONE, WORD, TAG, PAIR, STEM, LEFT_TAG, TAG_RIGHT, THREE_TAGS = range(8)
N_VIEWS = 8
VIEW_BITS, DISTANCE_BITS = 27, 4


@dataclass(frozen=True)
class ArcTemplate:
    """Views of head and child; whether they count by themselves, and with direction and distance."""

    head: int
    child: int
    plain: bool = True
    far: bool = True


@dataclass(frozen=True)
class ArcTemplates:
    """A list of templates, and whether tags between are looked at."""

    templates: tuple[ArcTemplate, ...]
    between: bool = True

    def table(self) -> npt.NDArray[np.int64]:
        """As numbers [T, 5]: head, child, plain, far, and the parent (-1: none), which stands before."""
        finer = {
            PAIR: (WORD, TAG),
            WORD: (STEM,),
            LEFT_TAG: (TAG,),
            TAG_RIGHT: (TAG,),
            THREE_TAGS: (LEFT_TAG, TAG_RIGHT),
        }
        rows: list[list[int]] = []
        for template in self.templates:
            coarser = [(view, template.child) for view in finer.get(template.head, ())]
            coarser += [(template.head, view) for view in finer.get(template.child, ())]
            parent = -1
            for number, row in enumerate(rows):
                if (row[0], row[1]) in coarser and row[2]:
                    parent = number
            rows.append([template.head, template.child, int(template.plain), int(template.far), parent])
        return np.array(rows, dtype=np.int64)

    def __post_init__(self) -> None:
        assert len(self.templates) < 31


_PAIRS = (
    (TAG, TAG),
    (STEM, TAG),
    (TAG, STEM),
    (STEM, STEM),
    (PAIR, TAG),
    (TAG, PAIR),
    (WORD, WORD),
    (PAIR, WORD),
    (WORD, PAIR),
    (PAIR, PAIR),
    (LEFT_TAG, TAG),
    (TAG_RIGHT, TAG),
    (TAG, LEFT_TAG),
    (TAG, TAG_RIGHT),
    (LEFT_TAG, LEFT_TAG),
    (LEFT_TAG, TAG_RIGHT),
    (TAG_RIGHT, LEFT_TAG),
    (TAG_RIGHT, TAG_RIGHT),
)

#: Of arcs, to find heads by. What looks at the child alone is worth the same for all its heads.
ARCS = ArcTemplates(
    (
        *(ArcTemplate(head, child) for head, child in _PAIRS),
        *(ArcTemplate(view, NONE) for view in (TAG, WORD, PAIR)),
        *(ArcTemplate(NONE, view, plain=False) for view in (TAG, WORD, PAIR, NONE)),
    )
)

#: Of arcs that are known, to find their relation by.
RELATIONS = ArcTemplates(
    (
        *(ArcTemplate(head, child) for head, child in _PAIRS[:10]),
        *(ArcTemplate(head, child, far=False) for head, child in ((TAG, LEFT_TAG), (TAG, TAG_RIGHT), (LEFT_TAG, TAG))),
        *(ArcTemplate(view, NONE) for view in (TAG, STEM, WORD)),
        *(ArcTemplate(NONE, view) for view in (TAG, STEM, WORD, PAIR, NONE)),
        *(ArcTemplate(NONE, view, far=False) for view in (LEFT_TAG, TAG_RIGHT, THREE_TAGS)),
    )
)
SETS = {"arcs": ARCS, "relations": RELATIONS}
