"""Where the jobs of a trace go: the partition and the leaf queue of the site, from the names that the trace has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from rankd.core.errors import Refused
from rankd.core.model.queue import DEFAULT_QUEUE, ROOT_QUEUE
from rankd.core.near_name import cut
from rankd.core.simulate.shape import asked_of
from rankd.core.simulate.site import SimulatedPartition, Site, leaf_named, leaf_of
from rankd.core.simulate.trace import TraceJob

_MOST_NAMED = 8


class Goal(NamedTuple):
    """The place of a partition among those of the site, and the path of a leaf queue in it.

    ``is_default``: neither the partition nor the queue of the trace is one of the site.
    """

    partition: int
    leaf: str
    is_default: bool = False


class Router:
    """:meth:`goal` finds the partition and the queue of a job.

    A route of the site comes first, for the job's queue, then for its partition. Without one, the partition is that
    with the trace's name for it, else the first with a leaf of the trace's name for the queue, else the first with
    ``root.default``, else the first.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._leaves = [own.leaves for own in site.partitions]
        self._numbers = {own.partition.name.lower(): place for place, own in enumerate(site.partitions)}
        self._known: dict[tuple[str, str], Goal] = {}

    def goal(self, queue: str, partition: str) -> Goal:
        """Where jobs with these names of the trace go."""
        found = self._known.get((queue, partition))
        if found is None:
            found = self._known[queue, partition] = self._find(queue, partition)
        return found

    def _find(self, queue: str, partition: str) -> Goal:
        names = (queue.lower(), partition.lower())
        given = [self._site.routes[name] for name in names if name in self._site.routes]
        leaf = next((to for to in given if _is_leaf(to)), queue)
        named = next((to for to in given if not _is_leaf(to)), None)
        if named is None and leaf == queue:
            named = partition
        number = None if named is None else self._numbers.get(named.lower())
        number = self._with_leaf(leaf) if number is None else number
        if number is None:
            number = self._with_leaf(DEFAULT_QUEUE) or 0
            return Goal(number, leaf_of(self._leaves[number], leaf), is_default=True)
        return Goal(number, leaf_of(self._leaves[number], leaf))

    @property
    def n_partitions(self) -> int:
        """The number of partitions."""
        return len(self._leaves)

    @property
    def default(self) -> str:
        """The partition of jobs whose names mean nothing here."""
        return self._site.partitions[self._with_leaf(DEFAULT_QUEUE) or 0].partition.name

    @property
    def unknown(self) -> list[str]:
        """The names of jobs that were asked about so far and are nothing here: their partition, else their queue."""
        known = self._known.items()
        return sorted({partition or queue for (queue, partition), goal in known if goal.is_default} - {""})

    def _with_leaf(self, name: str) -> int | None:
        return next((place for place, leaves in enumerate(self._leaves) if leaf_named(leaves, name)), None)

    def is_too_large(self, job: TraceJob, processors: int) -> bool:
        """Whether all nodes of the job's partition together have less than it asks for."""
        own = self._site.partitions[self.goal(job.queue, job.partition).partition]
        if processors > own.processors:
            return True
        asked = asked_of(job.others, self._site.types) if job.others else {}
        return any(own.totals.get(kind, 0) < amount for kind, amount in asked.items())


def check_routes(routes: Mapping[str, str], partitions: Sequence[SimulatedPartition]) -> None:
    """Check that each route leads to a partition or a leaf queue of the site.

    Raises:
        Refused: ``usage``: one does not.
    """
    names = [own.partition.name for own in partitions]
    leaves = list(dict.fromkeys(path for own in partitions for path in own.leaves))
    for name, to in routes.items():
        if _is_leaf(to) and leaf_named(leaves, to) is None:
            raise _nowhere(name, to, "leaf queue", leaves)
        if not _is_leaf(to) and to.lower() not in {own.lower() for own in names}:
            raise _nowhere(name, to, "partition", names)


def check_used(routes: Mapping[str, str], seen: Collection[str]) -> None:
    """Check that the trace has a queue or a partition of each name. ``seen``: those that its jobs name.

    Raises:
        Refused: ``usage``: one is in no job.
    """
    lower = {name.lower() for name in seen}
    for name in routes:
        if name not in lower:
            message = f"--map: no job of the trace has the queue or partition '{cut(name)}'; there are {_some(seen)}"
            raise Refused("usage", message, "map")


def _is_leaf(target: str) -> bool:
    return target.lower().startswith(f"{ROOT_QUEUE}.")


def _nowhere(name: str, target: str, what: str, known: Sequence[str]) -> Refused:
    message = f"--map {cut(name)}={cut(target)}: there is no {what} '{cut(target)}'; there are {_some(known)}"
    return Refused("usage", message, "map")


def _some(names: Collection[str]) -> str:
    shown = sorted(cut(name) for name in names if name)
    more = " …" if len(shown) > _MOST_NAMED else ""
    return ", ".join(shown[:_MOST_NAMED]) + more if shown else "none"
