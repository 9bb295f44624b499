"""A full generation's values of factors as they were used, job by job, for factors that can't be computed again.

Statements are text: ``rankd dump`` reads on the driver's connection and must not import SQLAlchemy (0.6 s).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankd.core.ranking.factor import Per
from rankd.store.engine.reading import Reader, Row, fetch

_PER = "SELECT value FROM generation_numbers WHERE generation = ? AND name = ?"
_VALUES = "SELECT key, value FROM generation_values WHERE generation = ? AND factor = ?"
_COMPUTED = "SELECT job_id AS key, value FROM job_factor WHERE factor = ? AND value IS NOT NULL"
_KEYS = {Per.JOB: "id", Per.ASSOCIATION: "association_id", Per.QOS: "qos_id", Per.QUEUE: "queue_id"}


def given_values(connection: Reader, generation: int, factors: Iterable[str], jobs: Sequence[Row]) -> dict[int, Row]:
    """By job, ``{"factors": {name: value}}``.

    Args:
        connection: in a read transaction.
        generation: the number of a full one.
        factors: their names.
        jobs: with their ids, and the ids of their association, queue and QoS. A job that has changed since has no value
        of a factor that is computed by a formula.
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


def name_of_per(factor: str) -> str:
    """The name under which a generation stores to what a factor's values belong (:class:`Per`)."""
    return f"per.{factor}"
