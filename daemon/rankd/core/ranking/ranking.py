"""A full pass: the whole content of a generation, computed from one state at one instant. Pure.

The prioritizer and ``rankd evaluate`` call :func:`rank`. The views show its result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.fairshare.algorithm import compute
from rankd.core.fairshare.decay import charge, decay
from rankd.core.fairshare.result import FairshareResult
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.quantity import Resources, add_amounts
from rankd.core.model.queue import QueueProperties
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.application_order import held_back, jobs_of, queues_by_id, usage_places
from rankd.core.ranking.base_order import BaseOrder
from rankd.core.ranking.columns import BoolArray, FloatArray, IntArray, JobColumns
from rankd.core.ranking.factor import Factor, FactorContext, Groups, begin
from rankd.core.ranking.name import Names
from rankd.core.ranking.order import Applications, OrderQueue, PreOrder, sort_jobs
from rankd.core.ranking.pass_memory import OfQueues, OfTree, PassMemory
from rankd.core.ranking.priority import INT32_MIN, FactorValues, Priorities, compute_priorities
from rankd.core.ranking.queue_key import fair_share, pending_weight
from rankd.core.ranking.queue_priority import QueuePriorities
from rankd.core.ranking.queue_view import QueueView, roll_up


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of each user, by user index of the tree.

    ``amounts`` (n_users,): usage in billing units times seconds at ``at`` (n_users,), in UTC seconds. Charges that are
    not in them yet, each (n_charges,): ``users`` (user index), ``rates`` (billing units per second), ``since`` and
    ``until`` (UTC seconds; infinite while the job runs).
    """

    amounts: FloatArray
    at: FloatArray
    users: IntArray
    rates: FloatArray
    since: FloatArray
    until: FloatArray

    def at_instant(self, now: float, half_life_s: float | None) -> FloatArray:
        """Usage at ``now``, with that of running jobs, (n_users,)."""
        return self._at(np.full(len(self.amounts), now), np.ones(len(self.users), dtype=bool), half_life_s)

    def settled(self, now: float, half_life_s: float | None) -> tuple[FloatArray, FloatArray]:
        """The new accumulators, with the charges of ended jobs only: usage and its time, each (n_users,).

        The time is ``now``. An accumulator with a later time keeps it, because it would otherwise decay twice.
        """
        instants = np.maximum(self.at, now)
        return self._at(instants, np.isfinite(self.until), half_life_s), instants

    def _at(self, instants: FloatArray, which: BoolArray, half_life_s: float | None) -> FloatArray:
        usage = decay(self.amounts, instants - self.at, half_life_s)
        if which.any():
            users = self.users[which]
            charges = charge(self.rates[which], self.since[which], self.until[which], instants[users], half_life_s)
            usage = usage + np.bincount(users, weights=charges, minlength=len(usage))
        return usage


class RankingState(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a pass. Tables are indexed by the ids in the columns of jobs.

    ``association_ids`` (n_users,) maps the tree's user indices to ids. ``queues`` has the queues of each partition,
    roots first. ``used``: the amounts that leaves use now. ``shapes``: by shape, the total amounts that a job asks for.
    ``tasks``: the number of pending tasks of each array, by job id.
    """

    jobs: JobColumns
    tree: AccountTree
    association_ids: IntArray
    usage: Usage
    qos_priorities: FloatArray
    qos_factors: FloatArray
    queues: Sequence[Sequence[QueueView]]
    used: Mapping[int, Resources]
    shapes: Sequence[Resources]
    totals: Sequence[Resources]
    partition_nodes: FloatArray
    partition_cores: FloatArray
    applications: Applications
    names: Names = Names()
    tasks: Mapping[int, int] = {}


class Outright(msgspec.Struct, frozen=True, kw_only=True):
    """Values of an evaluate document that replace computed ones.

    ``pending``: amounts by leaf, instead of the sum of the leaf's jobs. ``factors``: values by job, float64 (n_jobs,),
    NaN for jobs without a value.
    """

    pending: Mapping[int, Resources] = {}
    factors: Mapping[str, FloatArray] = {}


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in a generation. ``priority`` is None if nothing is pending in it."""

    id: int
    priority: int | None
    share: float
    pending_jobs: int
    pending: Resources
    used: Resources


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a generation.

    ``ids`` int64 (n_ranked,): the ranked jobs, the first to run first. ``ranked_priorities`` (n_ranked,): their
    priorities. ``held_back``: applications whose jobs are not ranked, because the policy of their leaf admits others
    first. ``groups``: the values that jobs share. ``base``: the order for deltas, if ``for_deltas`` was given.
    """

    now: float
    priorities: Priorities
    ids: IntArray
    ranked_priorities: IntArray
    queues: tuple[QueueRow, ...]
    fairshare: FairshareResult
    groups: Groups
    held_back: frozenset[int] = frozenset()
    base: BaseOrder | None = None


def rank(
    state: RankingState,
    settings: PrioritySettings,
    factors: Sequence[Factor],
    now: float,
    last_good: Mapping[str, FactorValues] | None = None,
    outright: Outright | None = None,
    *,
    for_deltas: bool = False,
    with_queues: bool = True,
    shown: QueuePriorities | None = None,
    memory: PassMemory | None = None,
) -> Ranking:
    """One full pass at ``now``.

    ``for_deltas``: the result has a ``base``. ``with_queues`` False: it has no ``queues``, which saves time if their
    order is always the same. ``shown``: the priorities of queues in the previous pass; this call updates them.
    ``last_good``: by factor, the values to use if the factor fails. ``memory``: of the previous pass.
    """
    given, memory = outright or Outright(), memory or PassMemory()
    usage = state.usage.at_instant(now, settings.fairshare.half_life_s)
    fairshare = compute(state.tree, usage, settings.fairshare)
    of_queues = memory.of_queues(state.queues, _n_queues(state))
    of_tree = memory.of_tree(state.tree, state.association_ids)
    context = FactorContext(now=now, jobs=state.jobs, groups=_groups(state, fairshare, of_queues, of_tree))
    begin(factors, context)
    priorities = compute_priorities(context, settings, factors, last_good, given.factors)
    pre_order = of_queues.pre_order
    queues: Mapping[int, QueueRow] = {}
    if with_queues or pre_order is None:
        queues = _queue_rows(state, priorities.priorities, given.pending, shown or QueuePriorities())
    held = _held_back(state, priorities.priorities)
    applications = _with_usage_places(state)
    waiting = jobs_of(held, state.jobs) if held else None
    pre_order = _pre_order(state, queues) if pre_order is None else pre_order
    order = sort_jobs(state.jobs, priorities.priorities, pre_order, applications, waiting, keep_levels=for_deltas)
    return Ranking(
        now=now,
        priorities=priorities,
        ids=state.jobs.ids[order.places],
        ranked_priorities=priorities.priorities[order.places],
        queues=tuple(queues.values()) if with_queues else (),
        fairshare=fairshare,
        groups=context.groups,
        held_back=held,
        base=BaseOrder(state.jobs, priorities.priorities, order, applications) if for_deltas else None,
    )


def _held_back(state: RankingState, priorities: IntArray) -> frozenset[int]:
    if not state.applications.states:
        return frozenset()
    return held_back(state.jobs, priorities, state.applications, queues_by_id(state.queues, state.totals))


def _groups(state: RankingState, fairshare: FairshareResult, queues: OfQueues, tree: OfTree) -> Groups:
    of_users = state.tree.of_users(fairshare.fairshare)
    fairshares = np.zeros(tree.n_associations)
    fairshares[state.association_ids] = np.where(np.isnan(of_users), 0.0, of_users)
    return Groups(
        fairshares=fairshares,
        qos_priorities=state.qos_priorities,
        qos_factors=state.qos_factors,
        queue_factors=queues.factors,
        partition_nodes=state.partition_nodes,
        partition_cores=state.partition_cores,
        partition_totals=state.totals,
        shapes=state.shapes,
        association_priorities=tree.priorities,
        largest_association_priority=tree.largest_priority,
        names=state.names.for_queues(len(queues.factors)),
    )


def _n_queues(state: RankingState) -> int:
    """One more than the largest queue id. Jobs may wait in a queue that is no longer configured."""
    configured = max((view.id for views in state.queues for view in views), default=-1)
    return max(configured, int(state.jobs.queues.max(initial=-1))) + 1


def _queue_rows(
    state: RankingState, priorities: IntArray, given_pending: Mapping[int, Resources], shown: QueuePriorities
) -> dict[int, QueueRow]:
    """The row of every queue by id, children before parents.

    Jobs in a queue that has become a parent are not ranked and not counted.
    """
    best, counts, summed = _leaf_sums(state, priorities)
    for parent in {view.parent for views in state.queues for view in views if view.parent in best}:
        del best[parent], counts[parent], summed[parent]
    pending = summed | dict(given_pending)
    priorities_shown = shown.update([view for views in state.queues for view in views], best)
    rows: dict[int, QueueRow] = {}
    for views in state.queues:
        rows |= _partition_rows(views, priorities_shown, counts, pending, state.used)
    return rows


def _partition_rows(
    views: Sequence[QueueView],
    shown: Mapping[int, int | None],
    counts: dict[int, int],
    pending: Mapping[int, Resources],
    used: Mapping[int, Resources],
) -> dict[int, QueueRow]:
    all_pending, all_used = roll_up(pending, views), roll_up(used, views)
    rows = {}
    for view in reversed(views):
        count = counts.get(view.id, 0)
        if view.parent is not None and count:
            counts[view.parent] = counts.get(view.parent, 0) + count
        rows[view.id] = QueueRow(
            id=view.id,
            priority=shown[view.id],
            share=fair_share(all_used[view.id], view.guaranteed, view.effective_max),
            pending_jobs=count,
            pending=all_pending[view.id],
            used=all_used[view.id],
        )
    return rows


def _leaf_sums(
    state: RankingState, priorities: IntArray
) -> tuple[dict[int, int], dict[int, int], dict[int, Resources]]:
    """Per leaf: the highest priority, the number and the amounts of eligible jobs. No loop over jobs."""
    places = np.flatnonzero(state.jobs.eligible)
    if not len(places):
        return {}, {}, {}
    queues, n_shapes = state.jobs.queues[places], len(state.shapes)
    largest = np.full(int(queues.max()) + 1, INT32_MIN)
    np.maximum.at(largest, queues, priorities[places])
    codes, counts = _count(queues * n_shapes + state.jobs.shapes[places])
    owners, shapes = np.divmod(codes, n_shapes)
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    leaves = owners[firsts].tolist()
    best = dict(zip(leaves, largest[leaves].tolist(), strict=True))
    numbers = dict(zip(leaves, np.add.reduceat(counts, firsts).tolist(), strict=True))
    pending = dict(zip(leaves, _summed_shapes(state.shapes, shapes, counts, firsts), strict=True))
    _add_tasks(state, numbers, pending)
    return best, numbers, pending


def _add_tasks(state: RankingState, numbers: dict[int, int], pending: dict[int, Resources]) -> None:
    """Add the tasks of arrays, of which one each is counted already, to the numbers and amounts of their leaves."""
    jobs = state.jobs
    for array, tasks in state.tasks.items():
        place = int(np.searchsorted(jobs.ids, array))
        if place == len(jobs) or int(jobs.ids[place]) != array or math.isnan(jobs.eligible_at[place]):
            continue
        leaf, more = int(jobs.queues[place]), tasks - 1
        numbers[leaf] += more
        asked = state.shapes[int(jobs.shapes[place])]
        add_amounts(pending[leaf], {kind: more * amount for kind, amount in asked.items()})


def _count(codes: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct codes, ascending, and their counts. The codes are sorted if there are many possible ones."""
    if int(codes.max()) > 4 * len(codes):
        return np.unique(codes, return_counts=True)
    counts = np.bincount(codes)
    present = np.flatnonzero(counts)
    return present, counts[present]


def _summed_shapes(
    amounts: Sequence[Resources], shapes: IntArray, counts: IntArray, firsts: IntArray
) -> list[Resources]:
    """For each run that begins at one of ``firsts``: the sum of the amounts of ``shapes`` times ``counts``.

    The sums are exact: if one may need more than 64 bits, Python's integers are used. Time and memory grow with the
    types that the shapes ask for, not with the number of shapes times the number of all types.
    """
    numbers: dict[str, int] = {}
    kinds = np.array([numbers.setdefault(kind, len(numbers)) for own in amounts for kind in own], dtype=np.int64)
    values = [amount for own in amounts for amount in own.values()]
    dtype = np.int64 if max(values, default=0) * int(counts.sum()) < 2**63 else object
    n_asked = np.array([len(own) for own in amounts], dtype=np.int64)
    ends = np.cumsum(n_asked)
    # one row for each shape of each run and each type that the shape asks for
    times = n_asked[shapes]
    rows = np.repeat(np.arange(len(shapes)), times)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    places = (ends - n_asked)[shapes][rows] + within
    leaves = np.searchsorted(firsts, rows, side="right") - 1
    codes, which = np.unique(leaves * max(len(numbers), 1) + kinds[places], return_inverse=True)
    sums = np.zeros(len(codes), dtype=dtype)
    np.add.at(sums, which, np.array(values, dtype=dtype)[places] * counts[rows])
    names = list(numbers)
    pending: list[Resources] = [{} for _ in firsts]
    for code, amount in zip(codes.tolist(), sums.tolist(), strict=True):
        leaf, kind = divmod(code, len(names))
        pending[leaf][names[kind]] = amount
    return pending


def _with_usage_places(state: RankingState) -> Applications:
    """The applications, with their places by usage if any application uses something."""
    if not state.applications.used:
        return state.applications
    places = usage_places(state.applications, queues_by_id(state.queues, state.totals))
    return msgspec.structs.replace(state.applications, usage_places=places)


def _pre_order(state: RankingState, rows: Mapping[int, QueueRow]) -> PreOrder:
    """The queues in the order of what they use."""
    queues = [OrderQueue(properties=QueueProperties(), is_root=True)] * _n_queues(state)
    for views, total in zip(state.queues, state.totals, strict=True):
        for queue, view in _order_queues(views, rows, total):
            queues[view.id] = queue
    return PreOrder(queues, [views[0].id for views in state.queues])


def _order_queues(
    views: Sequence[QueueView], rows: Mapping[int, QueueRow], total: Resources
) -> list[tuple[OrderQueue, QueueView]]:
    """The queues for ordering. Their children are in the order for equal priorities: fair share, pending, name."""
    children: dict[int, list[QueueView]] = {}
    for view in views:
        if view.parent is not None:
            children.setdefault(view.parent, []).append(view)

    def key(view: QueueView) -> tuple[float, float, str]:
        row = rows[view.id]
        return row.share, -pending_weight(row.pending, total), view.path

    return [
        (
            OrderQueue(
                properties=view.properties,
                is_root=view.parent is None,
                children=tuple(child.id for child in sorted(children.get(view.id, []), key=key)),
            ),
            view,
        )
        for view in views
    ]
