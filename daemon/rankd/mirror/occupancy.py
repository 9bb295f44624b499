"""What runs: open allocations as the scheduler keeps them, by node, by queue, by application, by user.

Each allocation is read once; afterwards only which are open is asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from rankd.core.model.quantity import Resources, add_amounts
from rankd.core.placement.node_set import SLOTS, Held, NodeSet
from rankd.core.placement.problem import Tenant
from rankd.core.ranking.columns import NO_GROUP, IntArray
from rankd.store.engine.connection import Connection

_OPEN = "SELECT id, coalesce(started_at, allocated_at) FROM allocations WHERE ended_at IS NULL"

_NEW = """
SELECT l.id, l.nodes, l.resources, j.exclusive, j.queue_id, j.application_id, j.time_limit_s, j."user", j.groups,
    q.partition
FROM allocations l JOIN jobs j ON j.id = l.job_id JOIN queues q ON q.id = j.queue_id
WHERE l.id IN (SELECT value FROM json_each(?))"""


class _Open(NamedTuple):
    """An allocation: what it has of the nodes of its partition, for how long, and as whose."""

    partition: str
    rows: IntArray
    vectors: IntArray
    limit_s: float
    tenant: Tenant


class Occupancy:
    """Open allocations; ``default_limit_s`` is that of jobs without a time limit."""

    def __init__(self, default_limit_s: float | None) -> None:
        self._default = math.inf if default_limit_s is None else default_limit_s
        self._sets: Mapping[str, NodeSet] = {}
        self._open: dict[int, _Open] = {}
        self._listed: list[tuple[int, float]] = []
        self._begun: dict[int, float] = {}
        self._held: dict[str, Held] = {}
        self.by_queue: dict[int, Resources] = {}
        self.by_application: dict[int, Resources] = {}

    def refresh(self, connection: Connection, sets: Mapping[str, NodeSet]) -> None:
        """Take in what began and ended. Other nodes than last time: everything is read again."""
        raw = connection.connection.cursor()  # the driver's: they are asked for at every cycle
        raw.execute(_OPEN)
        listed = list(raw.fetchall())
        if sets is self._sets and listed == self._listed:
            return
        self._listed, self._held = listed, {}
        if sets is not self._sets:
            self._sets = sets
            self._open.clear()
            self.by_queue.clear()
            self.by_application.clear()
        self._begun = dict(listed)
        for gone in self._open.keys() - self._begun.keys():
            self._count(self._open.pop(gone).tenant, -1)
        new = [id_ for id_ in self._begun if id_ not in self._open]
        if new:
            for row in connection.exec_driver_sql(_NEW, (json.dumps(new),)):
                opened = self._opened(row)
                self._open[row[0]] = opened
                self._count(opened.tenant, 1)

    def _opened(self, row: Iterable[object]) -> _Open:
        _, nodes, resources, exclusive, queue, application, limit, user, groups, partition = row
        amounts = json.loads(str(resources))
        own = self._sets.get(str(partition))
        names = [name for name in json.loads(str(nodes)) if own is not None and name in own.rows]
        rows = np.array([own.rows[name] for name in names] if own else [], dtype=np.int64)
        whole = (
            [dict(own.nodes[row].capacity) for row in rows.tolist()] if own and exclusive else [amounts] * len(names)
        )
        vectors = np.zeros((0, 1), dtype=np.int64)
        if own is not None:
            vectors = own.matrix(whole)
            vectors[:, -1] = SLOTS if exclusive else 1
        total: Resources = {}
        for amount in whole:
            add_amounts(total, amount)
        tenant = Tenant(
            queue=int(queue),  # type: ignore[call-overload]
            amount=total,
            user=str(user),
            groups=tuple(json.loads(str(groups))) if groups else (),
            application=NO_GROUP if application is None else int(application),  # type: ignore[call-overload]
        )
        limit_s = self._default if limit is None else float(limit)  # type: ignore[arg-type]
        return _Open(str(partition), rows, vectors, limit_s, tenant)

    def _count(self, tenant: Tenant, sign: int) -> None:
        amount = {kind: sign * value for kind, value in tenant.amount.items()}
        add_amounts(self.by_queue.setdefault(tenant.queue, {}), amount)
        if tenant.application != NO_GROUP:
            add_amounts(self.by_application.setdefault(tenant.application, {}), amount)

    def held(self, partition: str) -> Held:
        """What is held of a partition's nodes; the same as long as the same runs there."""
        if partition not in self._held:
            self._held[partition] = self._held_of(partition)
        return self._held[partition]

    def _held_of(self, partition: str) -> Held:
        width = len(self._sets[partition].types) + 1
        own = [(self._begun[id_], opened) for id_, opened in self._open.items() if opened.partition == partition]
        ends_at = [begun + opened.limit_s for begun, opened in own]
        return Held(
            np.concatenate([np.empty(0, dtype=np.int64), *(opened.rows for _, opened in own)]),
            np.concatenate([np.empty((0, width), dtype=np.int64), *(opened.vectors for _, opened in own)]),
            np.repeat(np.array(ends_at, dtype=np.float64), [len(opened.rows) for _, opened in own]),
        )

    def tenants(self) -> list[Tenant]:
        """Running jobs, for quotas."""
        return [opened.tenant for opened in self._open.values()]
