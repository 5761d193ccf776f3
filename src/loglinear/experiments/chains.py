"""Chains of trainings: each starts from the model of the one before and makes a cell of a store.

Chains are trained in parallel, the links of a chain one after the other. A model is stored while the next link needs
it, or while it is the best, so that a run that was killed resumes from the same models and gives the same cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from loglinear.experiments.pools.pool import SILENT, Emit, Job, Pool
from loglinear.experiments.store import Cell, Store


class Link(Protocol):
    """A training: its name and the key of its cell, and the training it starts from, if any."""

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def previous(self) -> Any: ...


@dataclass(frozen=True)
class Begun:
    """A link that has been given to the pool."""

    link: Any


@dataclass(frozen=True)
class Finished:
    """A link and its cell; the model is None if the store had the cell already."""

    link: Any
    cell: Cell
    model: Any = None


@dataclass(frozen=True)
class Chains:
    """How links are trained.

    Parameters
    ----------
    store : Store
    pool : Pool
        Where they are trained.
    job : callable
        From a link and the model to start from (or None) to the job whose result is a model and its cell.
    load : callable
        From a model file and its link to the model.
    """

    store: Store
    pool: Pool
    job: Callable[[Any, Any], Job]
    load: Callable[[Path, Any], Any]

    def train(
        self,
        chains: Sequence[Sequence[Link]],
        is_best: Callable[[Any, Cell], bool] = lambda *_: False,
        within: Emit = SILENT,
    ) -> Iterator[Any]:
        """What happens to links: :class:`Begun`, pairs of a link and its progress, and :class:`Finished` once its cell
        is stored.

        ``is_best`` tells of a link and its cell whether its model is the best so far, and so has to be kept. Models are
        stored and deleted here, in the thread of the caller, which may be a task itself (``within``).
        """
        places = {link.key: number for number, chain in enumerate(chains) for link in chain}
        last = {chain[-1].key for chain in chains}
        awaited: dict[int, str] = {}  # the key of the model that the next link of a chain starts from
        best, held = "", set[str]()
        with closing(self.pool.stream((partial(self._follow, chain) for chain in chains), within)) as events:
            for event in events:
                if isinstance(event, Finished):
                    key = event.link.key
                    best = key if is_best(event.link, event.cell) else best
                    awaited[places[key]] = "" if key in last else key
                    needed = {best, *awaited.values()}
                    if event.model is not None:
                        self.store.put(key, event.cell, event.model if key in needed else None)
                    for other in {*held, key} - needed:
                        self.store.forget(other)
                    held = {*held, key} & needed
                yield event

    def _follow(self, chain: Sequence[Link], emit: Emit) -> None:
        before = None
        for link in chain:
            cell = self.store.get(link.key)
            if cell is None:
                if before is None or link.previous is None:
                    before = self.model(link.previous, emit)
                emit(Begun(link))
                before, cell = self._fit(link, before, emit)
                emit(Finished(link, cell, before))
            else:
                before = None
                emit(Finished(link, cell))

    def model(self, link: Any, emit: Emit = SILENT) -> Any:
        """The model of a link, trained again if it is not stored; None for no link."""
        if link is None:
            return None
        kept = self.store.model(link.key, lambda path: self.load(path, link))
        return self._fit(link, self.model(link.previous, emit), emit)[0] if kept is None else kept

    def _fit(self, link: Any, before: Any, emit: Emit) -> tuple[Any, Cell]:
        found: tuple[Any, Cell] = self.pool.do(
            link.name, self.job(link, before), emit.mapped(lambda progress: (link, progress))
        )
        return found


def load_like(estimator: Any, path: Path) -> Any:
    """The trained model in a file; ``estimator`` provides its base if that is the user's own."""
    base = getattr(estimator, "base", None)
    return type(estimator).load(path, **({} if base is None or isinstance(base, str) else {"base": base}))
