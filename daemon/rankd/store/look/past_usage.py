"""The usage of associations at an earlier ranking, which is stored for the newest one alone.

An association's accumulator is the sum of its charges, each decayed. Those of recorded allocations are taken out of it.
The rest is what deleted jobs and the configuration have left. At the earlier instant, the usage was the rest, which had
decayed less, and the charges of the allocations that were known then. The sum is exact but for the last digits, and 0
is exactly 0.

SQL is text: the command line must not import SQLAlchemy (0.6 s).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankd.core.fairshare.decay import charge
from rankd.core.model.job import Event
from rankd.core.ranking.columns import FloatArray, IntArray
from rankd.store.engine.reading import Reader, fetch, tuples
from rankd.store.engine.word import number_at

_ASSOCIATIONS = "SELECT id, usage, usage_at FROM associations ORDER BY id"
_CHARGES = """
SELECT l.id, j.association_id, l.charge_rate, l.allocated_at, l.ended_at, l.charged
FROM allocations l JOIN jobs j ON j.id = l.job_id ORDER BY l.id"""
_LATER = f"""
SELECT {number_at("detail", "$.allocation")} AS allocation, event FROM job_events
WHERE id > ? AND {number_at("detail", "$.allocation")} IS NOT NULL AND event NOT IN ('start', 'idle')"""

ROUNDING = 1e-9
"""A rest below this part of the whole is the rounding of sums, and counts as 0."""
MOST_HALVINGS = 60.0
"""A rest is not scaled up by more halvings: nothing of it is left in the sum then."""


class _Charges(NamedTuple):
    """Allocations as columns, (n,) each. ``until``: infinite while it runs; ``users``: places of associations."""

    ids: IntArray
    users: IntArray
    rates: FloatArray
    since: FloatArray
    until: FloatArray
    charged: IntArray


def usage_then(connection: Reader, revision: int, at: float, half_life_s: float | None) -> dict[int, float]:
    """The usage of each association at the time ``at`` (UTC seconds), as known at the job event ``revision``."""
    rows = fetch(connection, _ASSOCIATIONS)
    places = {row["id"]: place for place, row in enumerate(rows)}
    amounts = np.array([row["usage"] for row in rows], dtype=np.float64)
    amounts_at = np.array([row["usage_at"] for row in rows], dtype=np.float64)
    own = _charges(connection, places)
    rest = _rest(amounts, amounts_at, own, half_life_s)
    if half_life_s is not None:
        rest = rest * np.exp2(np.minimum((amounts_at - at) / half_life_s, MOST_HALVINGS))
    later = fetch(connection, _LATER, [revision])
    opened = np.array([row["allocation"] for row in later if row["event"] == Event.ALLOCATE], dtype=np.int64)
    ended = np.array([row["allocation"] for row in later if row["event"] != Event.ALLOCATE], dtype=np.int64)
    until = np.where(np.isin(own.ids, ended), np.inf, own.until)
    known = ~np.isin(own.ids, opened)
    return dict(zip(places, (rest + _sums(own, until, at, half_life_s, known, len(rows))).tolist(), strict=True))


def _charges(connection: Reader, places: dict[int, int]) -> _Charges:
    rows = list(tuples(connection, _CHARGES))
    ids, users, rates, since, until, charged = list(zip(*rows, strict=True)) or [()] * 6
    return _Charges(
        np.array(ids, dtype=np.int64),
        np.array([places[user] for user in users], dtype=np.int64),
        np.array(rates, dtype=np.float64),
        np.array(since, dtype=np.float64),
        np.array([np.inf if end is None else end for end in until], dtype=np.float64),
        np.array(charged, dtype=np.int64),
    )


def _rest(amounts: FloatArray, amounts_at: FloatArray, own: _Charges, half_life_s: float | None) -> FloatArray:
    """What the accumulators have besides the charges of these allocations, each at its own instant."""
    settled = _sums(own, own.until, amounts_at[own.users], half_life_s, own.charged != 0, len(amounts))
    rest = amounts - settled
    return np.where(np.abs(rest) <= ROUNDING * np.maximum(np.abs(amounts), settled), 0.0, rest)


def _sums(
    own: _Charges,
    until: FloatArray,
    at: FloatArray | float,
    half_life_s: float | None,
    which: np.ndarray,
    n_associations: int,
) -> FloatArray:
    """The charges of some of the allocations at these instants, by association."""
    sums = np.zeros(n_associations)
    np.add.at(sums, own.users, np.where(which, charge(own.rates, own.since, until, at, half_life_s), 0.0))
    return sums
