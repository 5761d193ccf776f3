"""All structures: the class, the referee and the random problems of each. What runs over this table runs over all."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import problems.arcs
import problems.chain
import problems.flat
import problems.segments
import problems.tree
import referees.arcs
import referees.chain
import referees.flat
import referees.segments
import referees.tree
from loglinear.structures.arcs.structure import ArcTree
from loglinear.structures.chain.structure import Chain
from loglinear.structures.flat.structure import Flat
from loglinear.structures.segments.structure import Segments
from loglinear.structures.tree.structure import CFGTree


class Floor(NamedTuple):
    """What tests know about a structure.

    structure
        The class whose operations decide which criteria apply.
    referee
        The module with its enumeration: ``BruteForce``, ``referees`` and the functions of
        :class:`~referees.enumeration.Functions`.
    problems
        The module with the strategies ``batches`` (a structure and scores) and ``problems``
        (:class:`~problems.problem.Problem`), and ``random_scores``.
    """

    structure: type
    referee: ModuleType
    problems: ModuleType


STRUCTURES = {
    "arcs": Floor(ArcTree, referees.arcs, problems.arcs),
    "chain": Floor(Chain, referees.chain, problems.chain),
    "flat": Floor(Flat, referees.flat, problems.flat),
    "segments": Floor(Segments, referees.segments, problems.segments),
    "tree": Floor(CFGTree, referees.tree, problems.tree),
}
