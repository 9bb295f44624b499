"""Leases of roles: when a holder renews its lease and when it stops, and when another instance takes over.

A role is a row of the database, stamped by the database's clock. Safety does not depend on any clock: every write
transaction checks the role's epoch. Clocks only decide how soon somebody takes over. So both sides measure durations by
their own monotonic clock, and a step of the database's clock neither keeps a role vacant nor costs a living holder its
role. The holder counts from before it sent its renewal, the others from after they have seen it. So the holder stops
first.

Times are seconds. ``now`` is the caller's own monotonic clock; ``database_now`` and ``renewed_at`` are UTC seconds.
"""

from __future__ import annotations

from typing import NamedTuple

TTL_S = 3.0
"""A lease lasts this long after its last renewal."""
RENEW_EVERY_S = 1.0
"""Two renewals may fail before the lease is over."""
LEAST_SILENCE_S = 1.5 * RENEW_EVERY_S
"""A living holder renews within this time. Until it has passed, no other instance takes the role."""


class RoleRow(NamedTuple):
    """A role as the database has it. ``is_vacant``: its holder has resigned, or there was none yet."""

    epoch: int
    holder: str
    renewed_at: float
    ttl_s: float
    is_vacant: bool


class Seen(NamedTuple):
    """A row, and since when a standby has seen it without a change."""

    row: RoleRow
    since: float


def seen(before: Seen | None, row: RoleRow, now: float) -> Seen:
    """What a standby knows after it has read the row. ``now``: after the reading."""
    return before if before is not None and before.row == row else Seen(row, now)


def may_take(found: Seen, database_now: float, now: float) -> bool:
    """Whether a standby may take over now. ``now``: before the last reading.

    A role whose holder has resigned is free at once. Otherwise its row has not changed for the lease's whole duration;
    or the database's clock says that the lease is over, and a living holder would have renewed it meanwhile.
    """
    row, silence = found.row, now - found.since
    if row.is_vacant or silence >= row.ttl_s:
        return True
    return database_now - row.renewed_at >= row.ttl_s and silence >= LEAST_SILENCE_S


class Holding(NamedTuple):
    """A lease as its holder knows it. ``sent_at``: before it sent the last renewal that succeeded."""

    epoch: int
    sent_at: float
    ttl_s: float = TTL_S


def left_s(held: Holding, now: float) -> float:
    """For how many seconds the lease certainly lasts. From 0 on, another instance may hold the role."""
    return held.sent_at + held.ttl_s - now


def renewal_in_s(held: Holding, now: float) -> float:
    """After how many seconds the next renewal is due; 0 if it is due now."""
    return max(0.0, held.sent_at + RENEW_EVERY_S - now)
