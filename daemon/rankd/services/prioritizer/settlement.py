"""The usage that a full pass moves from ended allocations into the accumulators of their associations."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from rankd.mirror.association_table import Ledger
from rankd.store.record.generation import Settlement


def settlement_of(ledgers: Iterable[Ledger], now: float, half_life_s: float | None) -> Settlement:
    """The accumulators of associations whose allocations ended by ``now``.

    An allocation that ended according to a faster clock is settled once this clock has reached its end. Before, it
    would be charged only in part.
    """
    rows: list[tuple[float, float, int]] = []
    allocations: list[int] = []
    for ledger in ledgers:
        over = ledger.usage.until <= now
        usage = msgspec.structs.replace(ledger.usage, until=np.where(over, ledger.usage.until, np.inf))
        settled, instants = usage.settled(now, half_life_s)
        rows += [
            (float(settled[user]), float(instants[user]), int(ledger.association_ids[user]))
            for user in np.unique(usage.users[over]).tolist()
        ]
        allocations += ledger.allocation_ids[over].tolist()
    return Settlement(associations=rows, allocations=allocations)
