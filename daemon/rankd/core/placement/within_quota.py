"""Nodes that are together within the quotas, where what a job is charged depends on the nodes that it gets."""

from __future__ import annotations

from collections.abc import Sequence

from rankd.core.placement.case import Case
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.quota import places_within, room_in


def models_within(table: NodeTable, case: Case, rows: list[int], most: int) -> list[int]:
    """At most ``most`` rows, in their order, that are together within the quotas with the models chosen there."""
    room, head = room_in(case.accounts), rows[:most]
    together = table.given(head, case.demand, table.shares(head, case.demand))
    if all(together.get(kind, 0) <= left for kind, left in room.items()):
        return head
    given = [table.given([row], case.demand, table.shares([row], case.demand)) for row in rows]
    return [rows[place] for place in places_within(room, given, most)]


def whole_within(
    table: NodeTable, case: Case, rows: Sequence[int], most: int, n_accounts: int | None = None
) -> list[int]:
    """At most ``most`` rows, in their order, that are together within the quotas if whole nodes are charged."""
    room, head = room_in(case.accounts[:n_accounts]), table.amounts(rows[:most], case.shape)
    if all(head.get(kind, 0) <= left for kind, left in room.items()):
        return list(rows[:most])
    whole = [table.amounts([row], case.shape) for row in rows]
    return [rows[place] for place in places_within(room, whole, most)]
