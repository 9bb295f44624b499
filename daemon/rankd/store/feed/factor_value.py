"""Values of factors that the newest generation stores, because they cannot be computed again.

The values are read with text and the driver's rows, because there may be one for each of a million jobs:
100,000 values take 109 ms, with SQLAlchemy's rows 134 ms.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sqlalchemy import bindparam, select

from rankd.core.ranking.factor import Per
from rankd.core.ranking.priority import FactorValues
from rankd.store.engine.bulk import stream
from rankd.store.engine.connection import Connection
from rankd.store.engine.plan import most
from rankd.store.record.given_value import name_of_per
from rankd.store.schema.generation_table import generation_numbers, generations

_NEWEST_BASE = select(generations.c.base).order_by(generations.c.number.desc()).limit(most(1)).scalar_subquery()
_PER = select(generation_numbers.c.generation, generation_numbers.c.value).where(
    generation_numbers.c.generation == _NEWEST_BASE, generation_numbers.c.name == bindparam("name")
)

_VALUES = "SELECT key, value FROM generation_values WHERE generation = ? AND factor = ? ORDER BY key"


def stored_values(connection: Connection, factors: Iterable[str]) -> dict[str, FactorValues]:
    """The values of each factor in the newest full generation and the deltas based on it.

    Zeros are left out, and so are factors whose values are not stored.
    """
    found = {}
    for name in factors:
        for base, per in connection.execute(_PER, {"name": name_of_per(name)}):
            rows = [row for rows in stream(connection, _VALUES, (base, name)) for row in rows]
            keys, values = np.array(rows, dtype=np.float64).reshape(-1, 2).T
            found[name] = FactorValues(
                name=name, weight=0.0, per=list(Per)[int(per)], values=values, keys=keys.astype(np.int64)
            )
    return found
