"""A full generation's values of factors as they were used, job by job: for those that can't be computed again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rankd.core.ranking.factor import Per
from rankd.core.ranking.priority import FactorValues
from rankd.store.engine.reading import Reader, Row, fetch

_PER = "SELECT value FROM generation_numbers WHERE generation = ? AND name = ?"
_STORED_PER = """
SELECT g.base, n.value FROM generation_numbers n
JOIN (SELECT base FROM generations ORDER BY number DESC LIMIT 1) g ON n.generation = g.base WHERE n.name = ?"""
_VALUES = "SELECT key, value FROM generation_values WHERE generation = ? AND factor = ?"
_COMPUTED = "SELECT job_id AS key, value FROM job_factor WHERE factor = ? AND value IS NOT NULL"
_KEYS = {Per.JOB: "id", Per.ASSOCIATION: "association_id", Per.QOS: "qos_id", Per.QUEUE: "queue_id"}


def given_values(connection: Reader, generation: int, factors: Iterable[str], jobs: Sequence[Row]) -> dict[int, Row]:
    """By job ``{"factors": {name: value}}``.

    Args:
        connection: in a read transaction.
        generation: a full one.
        factors: which.
        jobs: with their id and those of their association, queue and QoS. One that has changed since has no value of
            a factor that is computed by a formula.
    """
    given: dict[int, Row] = {}
    for name in factors:
        per = fetch(connection, _PER, [generation, name_of_per(name)])
        if per:
            key = _KEYS[list(Per)[int(per[0]["value"])]]
            values = {row["key"]: row["value"] for row in fetch(connection, _VALUES, [generation, name])}
            found = {job["id"]: values.get(job[key], 0.0) for job in jobs}
        else:
            found = {row["key"]: row["value"] for row in fetch(connection, _COMPUTED, [name])}
        for job, value in found.items():
            given.setdefault(job, {"factors": {}})["factors"][name] = value
    return given


def stored_values(connection: Reader, factors: Iterable[str]) -> dict[str, FactorValues]:
    """Of the newest full generation and the deltas on it; zeros are left out, as are factors that are computed."""
    cursor, found = connection.cursor(), {}
    try:
        for name in factors:
            cursor.execute(_STORED_PER, (name_of_per(name),))
            for generation, per in cursor.fetchall():
                cursor.execute(f"{_VALUES} ORDER BY key", (generation, name))
                keys, values = np.array(cursor.fetchall(), dtype=np.float64).reshape(-1, 2).T
                found[name] = FactorValues(
                    name=name, weight=0.0, per=list(Per)[int(per)], values=values, keys=keys.astype(np.int64)
                )
    finally:
        cursor.close()
    return found


def name_of_per(factor: str) -> str:
    """Under this name a generation says what a factor's stored values belong to."""
    return f"per.{factor}"
