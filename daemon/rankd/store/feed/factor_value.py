"""Values of factors that the newest generation stores, because they cannot be computed again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rankd.core.ranking.factor import Per
from rankd.core.ranking.priority import FactorValues
from rankd.store.engine.bulk import stream
from rankd.store.engine.connection import Connection
from rankd.store.record.given_value import name_of_per

_PER = """
SELECT g.base, n.value FROM generation_numbers n
JOIN (SELECT base FROM generations ORDER BY number DESC LIMIT 1) g ON n.generation = g.base WHERE n.name = ?"""

_VALUES = "SELECT key, value FROM generation_values WHERE generation = ? AND factor = ? ORDER BY key"
"""Text and the driver's rows, because there may be a value for each of a million jobs."""


def stored_values(connection: Connection, factors: Iterable[str]) -> dict[str, FactorValues]:
    """The values of each factor in the newest full generation and the deltas based on it.

    Zeros are left out, and so are factors whose values are not stored.
    """
    found = {}
    for name in factors:
        for base, per in connection.exec_driver_sql(_PER, (name_of_per(name),)):
            rows = [row for rows in stream(connection, _VALUES, (base, name)) for row in rows]
            keys, values = np.array(rows, dtype=np.float64).reshape(-1, 2).T
            found[name] = FactorValues(
                name=name, weight=0.0, per=list(Per)[int(per)], values=values, keys=keys.astype(np.int64)
            )
    return found
