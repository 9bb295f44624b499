"""A scheduling cycle: snapshot + nodes + now -> allocations, reservations, and why each other job waits.

Pure and deterministic: the same input gives the same output. The order of the input's rows does not matter. Jobs are
tried in the order of the traversal. Each job starts or is blocked, for one of these reasons: a quota; a user limit; too
few nodes could ever hold it; too few nodes are free; it would take room that is reserved. The first jobs that only
lack free nodes get reservations (``backfill``). Later jobs may start before them if that does not delay them.

If a job is blocked, all later jobs of the same queue and kind are blocked too, because room and quotas only shrink in a
cycle.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankd.core.model.quantity import LARGEST
from rankd.core.model.reason_code import ARRAY_LIMIT, RESERVED, RESOURCES
from rankd.core.placement.array_limit import ArrayLimits
from rankd.core.placement.backfill_rule import BackfillRule
from rankd.core.placement.case import Case, Cases
from rankd.core.placement.cycle_memory import CycleMemory
from rankd.core.placement.free_group import largest_free, most_free, without_room
from rankd.core.placement.node_index import Finder, NodeIndex, OnlyNode
from rankd.core.placement.node_table import NodeSortPolicy, NodeTable
from rankd.core.placement.one_leaf import OneLeaf
from rankd.core.placement.problem import CycleOutcome, PartitionProblem, Placement, Reservation, WaitReason
from rankd.core.placement.quota import QuotaBook, charge, most_within, over
from rankd.core.placement.reason import (
    Reason,
    in_order,
    lacking,
    not_able,
    over_models,
    over_quota,
    over_whole,
    reserved,
)
from rankd.core.placement.shortest_first import ShortestFirst, Turn
from rankd.core.placement.timeline import Timeline
from rankd.core.placement.traversal import Traversal
from rankd.core.placement.within_quota import models_within, whole_within
from rankd.core.ranking.columns import BoolArray, IntArray

AT_LIMIT = "as many of its tasks run as may run at a time"
_NO_ROOM = Reason(RESOURCES, "")
"""The reason of a job without room, if nobody asks for reasons."""
Walk = Traversal | OneLeaf | ShortestFirst
"""Which job is tried next."""
_NODES_PER_LOOK = 64
"""Finding the largest free amounts of this number of nodes costs as much as trying one job."""


def run_cycle(problem: PartitionProblem, policy: NodeSortPolicy, memory: CycleMemory | None = None) -> CycleOutcome:
    """Place the jobs that fit, reserve nodes for the first that do not, and give the reasons for the others."""
    return _Cycle(problem, policy, memory or CycleMemory()).run()


class _Cycle:
    def __init__(self, problem: PartitionProblem, policy: NodeSortPolicy, memory: CycleMemory) -> None:
        self.problem = problem
        self.memory = memory
        self.partition = memory.partition
        self.table = NodeTable(problem.nodes, policy, problem.node_sort.resourceweights, problem.holds, problem.billing)
        memory.update(problem)
        self.rule = BackfillRule(problem)
        self.limits = ArrayLimits(problem.array_rooms, problem.array_of)
        self.walk: Walk = self._begin_walk()
        self.quotas = QuotaBook(self.partition.index, problem.used, problem.tenants)
        self.timeline = Timeline(self.table, problem.now)
        self.finders: dict[tuple[int, float | None], Finder | OnlyNode] = {}
        self.index: NodeIndex | None = None
        self.looked_at = 0
        self.in_vain = 0
        self.n_passed_at = 0
        self.backfilled = 0
        self.placements: list[Placement] = []
        self.reservations: list[Reservation] = []
        self.reasons: dict[tuple[int, int], WaitReason] = {}
        self.by_job: dict[int, WaitReason] = {}
        self.blocked: set[tuple[int, int]] = set()
        self.told: dict[tuple[int, float, int], tuple[tuple[int, int], Reason]] = {}
        self.free: dict[int, tuple[int, BoolArray, int]] = {}
        self.largest: IntArray = most_free(self.table.free, self.table.up)
        self.most: list[int] = self.largest.tolist()
        self.cases = Cases(problem.kinds, self.table, self.quotas, self.most)

    def _begin_walk(self) -> Walk:
        only = self.partition.only_leaf
        if only is not None:
            return OneLeaf(only, self.partition.kinds, self.limits)
        return Traversal(self.partition, self.limits)

    def run(self) -> CycleOutcome:
        self._pass(self._worth_trying())
        while not self.rule.is_over and (turn := self.walk.next()) is not None:
            self.looked_at += 1
            case = self.cases.of(turn)
            if blocked := self._look(turn, case):
                self._wait(turn, case, blocked)
        self._explain_limited()
        own, common = self._reasons_of_passed() if self.problem.explain else ([], ())
        return CycleOutcome(
            placements=tuple(self.placements),
            reservations=tuple(self.reservations),
            own=(*self.reasons.values(), *own) if self.problem.explain else (),
            common=common,
            by_job=self.by_job,
            looked_at=self.looked_at,
            backfilled=self.backfilled,
        )

    def _worth_trying(self) -> IntArray:
        """The most that a job can ask a node for to be tried at all; int64 (n_groups, n_types + 1)."""
        if self.rule.is_strict:  # a job that waits holds up the others
            return np.full((1, len(self.table.types) + 1), LARGEST)
        # a kind that no node will ever have room for gets no reservation either
        return self.timeline.ever_free()[np.newaxis] if self.rule.may_reserve() else self._largest()

    def _pass(self, largest: IntArray) -> None:
        """Pass all kinds that ask a node for more than each row of ``largest``, int64 (n_groups, n_types + 1).

        Also the kinds that ask for more nodes than could ever hold them.
        """
        if not self.problem.each:
            passed = without_room(largest, self.table.types, self.problem.kinds)
            unable = self.memory.common.unable(self.partition, self.table, self.problem.backfill)
            for kinds in (passed, unable):
                if kinds is not None:
                    self.walk.pass_all(kinds)

    def _largest(self) -> IntArray:
        """The largest free amounts now, of each group of nodes; int64 (n_groups, n_types + 1)."""
        return largest_free(self.table.free, self.table, self.problem.kinds)

    def _pass_delaying(self) -> None:
        """Without reasons: pass the kinds that would delay the first reservation on each node with room for them."""
        if self.problem.explain or self.problem.each:
            return
        kinds, at = self.problem.kinds, self.timeline.first_reserved
        delaying = (kinds.limits_s > at - self.problem.now) & ~self.walk.always
        if not self.walk.has_any(delaying):
            return
        free = np.minimum(self.table.free, self.timeline.kept_until(at).free)
        passed = without_room(largest_free(free, self.table, kinds), self.table.types, kinds)
        if passed is not None:
            self.walk.pass_all(delaying & passed)

    def _reasons_of_passed(self) -> tuple[list[WaitReason], tuple[WaitReason, ...]]:
        """The reasons of the kinds that were passed everywhere: those of single queues, and common ones.

        A kind has a common reason if at least one leaf has jobs of it without a reason of its own.
        """
        always, partition = self.walk.always, self.partition
        if not always.any():
            return [], ()
        n_told = partition.n_leaves.copy()
        looked_at: dict[int, list[int]] = {}
        for queue, kind in self.reasons:
            looked_at.setdefault(queue, []).append(kind)
            n_told[kind] -= 1
        own: list[WaitReason] = []
        for place in self.memory.rooms.suspects(partition, self.quotas.rooms()):
            queue = partition.index.views[place].id
            passed = np.setdiff1d(partition.contents[place].kinds, looked_at.get(queue, ()), assume_unique=True)
            found = self._own_reasons(queue, passed[always[passed]])
            own.extend(found)
            n_told[[reason.kind for reason in found]] -= 1
        told = always & (n_told > 0)
        return own, self.memory.common.of(partition, self.table, self.largest, self.problem.backfill, told)

    def _own_reasons(self, queue: int, passed: IntArray) -> list[WaitReason]:
        """The reasons of those passed kinds that are over a quota in this leaf."""
        room, kinds = self.quotas.plain_room(queue), self.problem.kinds
        if room is not None:
            passed = passed[kinds.over(passed, room) | kinds.exclusive[passed]]
        found = []
        for kind in passed.tolist():
            case = self.cases.of(Turn(queue, 0, kind))
            if reason := self._over_quota(case) or self._over_whole(case):
                found.append(WaitReason(queue, kind, *reason))
        return found

    def _look(self, turn: Turn, case: Case) -> Reason | None:
        """Start the job; or return the reason why it can't start."""
        if found := self._over_quota(case):
            return found
        if self.rule.ahead is None and (turn.queue, turn.kind) not in self.blocked:
            rows = self._choose(case)
            if rows:
                self._start(turn, case, rows)
                return None
        over_models_ = self._over_models(case) if self.rule.ahead is None else None
        return self._over_whole(case) or over_models_ or self._why_none(case)

    def _over_quota(self, case: Case) -> Reason | None:
        found = over(case.accounts, case.least, case.application)
        return None if found is None else over_quota(found)

    def _choose(self, case: Case) -> list[int]:
        """The rows of the nodes that the job gets now, the best first; empty if fewer than ``min_nodes`` fit."""
        if case.is_too_large:
            return []
        if case.shape.nodes == 1 and not case.depends_on_node:
            row = self._finder(case).best()
            return [] if row is None else [row]
        return self._pick(case, self._free_now(case))

    def _finder(self, case: Case) -> Finder | OnlyNode:
        """The finder of the case's demand. As soon as there are reservations, it is one for its time limit."""
        if case.finder is not None and case.finds_reserved == bool(self.timeline.version):
            return case.finder
        case.finds_reserved = bool(self.timeline.version)
        key = (id(case.demand), case.limit_s if case.finds_reserved else None)
        finder = self.finders.get(key)
        if finder is None:
            finder = self.finders[key] = self._new_finder(case)
        case.finder = finder
        return finder

    def _new_finder(self, case: Case) -> Finder | OnlyNode:
        reservations = self.timeline if case.finds_reserved else None
        if len(self.table.nodes) == 1:
            return OnlyNode(self.table, case.demand, reservations, case.limit_s)
        self.index = self.index or NodeIndex(self.table)
        return Finder(self.index, case.demand, reservations, case.limit_s)

    def _free_now(self, case: Case) -> list[int]:
        """The rows with room that is not reserved, in the nodes' order. At most the number that the job can use."""
        fits, n_free = self._free(case)
        if n_free < case.shape.min_nodes:
            return []
        fits = fits & ~self._kept_from(case, fits)
        if np.count_nonzero(fits) < case.shape.min_nodes:
            return []
        return self.table.best(fits, len(fits) if case.depends_on_node else case.shape.nodes)

    def _free(self, case: Case) -> tuple[BoolArray, int]:
        """Which nodes have room now, and their number.

        If the number is 0 because the demand is too large, the array has the nodes that could hold it when empty.
        """
        demand = case.demand
        if case.is_too_large:
            return demand.able, 0
        found = self.free.get(id(demand))
        if found is None or found[0] != len(self.placements):
            fits = self.table.fitting(demand)
            found = self.free[id(demand)] = (len(self.placements), fits, int(np.count_nonzero(fits)))
        return found[1], found[2]

    def _kept_from(self, case: Case, fits: BoolArray) -> BoolArray:
        """Which of the nodes with room keep it for reservations."""
        kept = self.timeline.kept(case.limit_s)
        refused = np.zeros(len(fits), dtype=bool)
        if kept is not None:
            rows = np.flatnonzero(fits)
            refused[rows] = ~kept.allows(rows, case.demand)
        return refused

    def _pick(self, case: Case, rows: list[int]) -> list[int]:
        """The first rows within the quotas, up to ``nodes`` of them; empty if there are fewer than ``min_nodes``."""
        shape = case.shape
        if shape.exclusive:
            chosen = whole_within(self.table, case, rows, shape.nodes)
        elif case.depends_on_node:
            chosen = models_within(self.table, case, rows, shape.nodes)
        else:
            chosen = rows[: most_within(case.accounts, shape.resources, shape.nodes)]
        return chosen if len(chosen) >= shape.min_nodes else []

    def _start(self, turn: Turn, case: Case, rows: Sequence[int]) -> None:
        nodes = self.index or self.table
        shares = self.table.shares(rows, case.demand)
        given = self.table.given(rows, case.demand, shares)
        if len(rows) == 1:
            nodes.occupy(rows[0], shares[0])
        else:
            nodes.occupy_all(np.array(rows), shares)
        self.timeline.start(rows, shares, case.limit_s)
        charge(case.accounts, given, case.application)
        self.walk.started(turn.kind, given)
        self.backfilled += bool(self.reservations)
        self.placements.append(Placement(turn.job, self.table.names(rows), self.table.device_ids(rows, shares)))

    def _over_whole(self, case: Case) -> Reason | None:
        """The reason, if the quotas do not allow enough whole nodes, whichever nodes are chosen; else None."""
        shape = case.shape
        if not shape.exclusive or case.demand.n_able < shape.min_nodes:
            return None
        able = self.table.best(case.demand.able, len(self.table.nodes))
        for n_accounts, account in enumerate(case.accounts, start=1):  # the first one that is too small is named
            if len(whole_within(self.table, case, able, shape.min_nodes, n_accounts)) < shape.min_nodes:
                return over_whole(account, [self.table.amounts([row], shape) for row in able], shape.min_nodes)
        return None

    def _over_models(self, case: Case) -> Reason | None:
        """The reason, if nodes have room, but the devices that the rule chooses there are of models over a quota."""
        if case.shape.exclusive or not case.depends_on_node:
            return None
        rows = self._free_now(case)
        return over_models(case.accounts) if len(rows) >= case.shape.min_nodes else None

    def _why_none(self, case: Case) -> Reason:
        if case.demand.n_able < case.shape.min_nodes:
            return not_able(case.shape, case.demand.n_able, self.table)
        if not self.problem.explain:
            return _NO_ROOM
        key, state = (id(case.demand), case.limit_s, id(case.shape)), (len(self.placements), self.timeline.version)
        told = self.told.get(key)
        if told is None or told[0] != state:
            told = self.told[key] = (state, self._why_too_few(case))
        return told[1]

    def _why_too_few(self, case: Case) -> Reason:
        fits, n_free = self._free(case)
        if n_free >= case.shape.min_nodes:
            if self.rule.ahead is not None:
                return in_order(self.rule.ahead)
            refused = np.flatnonzero(self._kept_from(case, fits))
            for row in refused[:1].tolist():
                if delayed := self.timeline.delayed(row, case.demand, case.limit_s):
                    return reserved(self.table.nodes[row].name, *delayed)
        return lacking(case.shape, n_free, case.demand, self.most, self.table, self.problem.backfill)

    def _wait(self, turn: Turn, case: Case, blocked: Reason) -> None:
        """Store why the job waits, reserve nodes for it if it may have them, and pass jobs with the same reason."""
        reason = WaitReason(turn.queue, turn.kind, *blocked)
        if self.problem.each:
            self.by_job.setdefault(turn.job, reason)
        else:
            self.reasons.setdefault((turn.queue, turn.kind), reason)
        self.blocked.add((turn.queue, turn.kind))
        is_reserved = blocked.code in (RESOURCES, RESERVED) and self.rule.may_reserve() and self._reserve(turn, case)
        self.rule.on_blocked(turn.job, blocked.code)
        if self.rule.is_over:
            return
        goes_on = is_reserved and self.rule.may_reserve()
        if not (goes_on and self.rule.may_reserve_task(turn.job, self.limits.room(turn.job))):
            self.walk.pass_rest()
        if not self.problem.each and not goes_on:
            self.walk.block(turn.queue, turn.kind)
        has_passed = turn.job == self.rule.ahead or (is_reserved and not self.rule.may_reserve())
        if has_passed:
            self._pass(self._largest())
            self._pass_delaying()
            self._change_order()
        if blocked.code == RESOURCES:
            self._pass_again(has_passed=has_passed)

    def _change_order(self) -> None:
        if self.rule.is_by_limit and not isinstance(self.walk, ShortestFirst):
            self.walk = self.walk.rest_by_limit()

    def _explain_limited(self) -> None:
        if self.problem.each:
            for turn in self.walk.limited:
                self.by_job.setdefault(turn.job, WaitReason(turn.queue, turn.kind, ARRAY_LIMIT, AT_LIMIT))

    def _pass_again(self, *, has_passed: bool) -> None:
        """After several jobs that found no room: pass the kinds for which no node has room any more.

        ``has_passed``: this was just done.
        """
        self.in_vain += 1
        has_started = self.n_passed_at != len(self.placements)
        if has_started and self.in_vain * _NODES_PER_LOOK > len(self.table.nodes) and not self.rule.may_reserve():
            self.in_vain, self.n_passed_at = 0, len(self.placements)
            if not has_passed:
                self._pass(self._largest())
                self._pass_delaying()

    def _reserve(self, turn: Turn, case: Case) -> bool:
        """Reserve nodes for the job from the earliest possible instant. Returns False if there is none."""
        windows = self.timeline.windows(case.demand, case.limit_s, case.shape.min_nodes)
        if windows is None:
            return False
        for instant in windows.instants(case.shape.min_nodes).tolist():
            rows = windows.at(instant, self.table.keys)
            if case.shape.exclusive:
                rows = whole_within(self.table, case, rows, case.shape.min_nodes)
            rows = rows[: case.shape.min_nodes]
            if len(rows) == case.shape.min_nodes:
                self.rule.on_reserved(turn.job)
                self.timeline.reserve(turn.job, rows, case.demand, instant, case.limit_s)
                charge(case.accounts, self.table.amounts(rows, case.shape), case.application, keeps=True)
                self.reservations.append(Reservation(turn.job, self.table.names(rows), instant))
                return True
        return False
