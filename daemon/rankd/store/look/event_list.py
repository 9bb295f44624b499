"""The events of some users' jobs behind a given event: what ``rankd watch`` asks again and again.

Ids of events grow in the order of the commits. So a reader that asks after the last id that it has seen gets every
event once, whatever became of the messages on the bus.

Text, as in all modules beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rankd.core.model.id_range import apart
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import (
    IN_NUMBERS,
    IN_TEXTS,
    JOIN_IN_ORDER,
    VALUES,
    listed,
    number_at,
    text_at,
    unindexed,
)
from rankd.store.look.job_filter import as_json
from rankd.store.look.job_name import of_ranges, records_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.wire.message import EventsRequest

MOST_LOOKED_AT = 100_000
"""Ids that one request looks through. Events of other users cost time too."""
DISORDER_S = 60.0
"""How much earlier than the events before it an event may be. Requests that came together are committed later, and the
clocks of two services differ."""

_ENDS = """
SELECT (SELECT max(id) FROM job_events) AS newest,
    (SELECT id FROM job_events WHERE id > ? ORDER BY id LIMIT 1) AS next"""
_AT = "SELECT id, at FROM job_events WHERE id >= ? ORDER BY id LIMIT 1"
_EVENTS = f"""
SELECT e.id, e.job_id AS job, e.event, e.state, e.at, e.actor, e.cause, {text_at("e.detail", "$.via")} AS via,
    j."user", j.array_job, j.array_task
FROM job_events e {JOIN_IN_ORDER} jobs j ON j.id = e.job_id
WHERE e.id >= ? AND e.id <= ?{{terms}} ORDER BY e.id LIMIT ?"""
_SINCE = " AND e.at >= ?"
_USER = 'j."user"'
_JOBS = f"{unindexed('e.job_id')} {IN_NUMBERS}"
_USERS = f"{unindexed(_USER)} {IN_TEXTS}"
"""So the events are read in the order of their ids, and the job of each is looked up."""
_JOBS_OR_RANGES = f"""({_JOBS} OR EXISTS (SELECT 1 FROM {listed(VALUES)} r WHERE coalesce(j.array_job, j.id)
    BETWEEN {number_at("r.value", "$[0]")} AND {number_at("r.value", "$[1]")}))"""


class Found(NamedTuple):
    """Rows of events, oldest first; the id up to which was looked; and whether there are events behind it."""

    rows: list[Row]
    last: int
    more: bool


def events_behind(connection: Reader, wanted: EventsRequest) -> Found:
    """At most ``limit`` events behind the id ``after`` and not before ``since``; without both, no events.

    ``last`` is never above the newest event's id. If it is below ``after``, the records are older than what the asker
    saw before.

    Takes 0.01 ms if there is no new event, 3 ms for 1,000 events, and 44 ms to pass 100,000 events of other users.
    """
    after = wanted.after or 0
    if wanted.since is not None:
        after = max(after, _last_before(connection, wanted.since - DISORDER_S))
    [ends] = fetch(connection, _ENDS, [after])
    newest = ends["newest"] or 0
    if ends["next"] is None or (wanted.after is None and wanted.since is None):
        return Found([], newest, more=False)
    last = min(ends["next"] + MOST_LOOKED_AT - 1, newest)
    terms, values = _terms(connection, wanted)
    rows = fetch(connection, _EVENTS.format(terms=terms), [ends["next"], last, *values, wanted.limit + 1])
    for row in rows:
        if row["array_job"] is None:
            del row["array_job"], row["array_task"]
    if len(rows) > wanted.limit:
        rows = rows[: wanted.limit]
        return Found(rows, rows[-1]["id"], more=True)
    return Found(rows, last, more=last < newest)


def _terms(connection: Reader, wanted: EventsRequest) -> tuple[str, Sequence[object]]:
    """Further conditions, and the values of their parameters."""
    terms, values = "", list[object]()
    if wanted.since is not None:
        terms, values = terms + _SINCE, [*values, wanted.since]
    if wanted.jobs is not None:
        named = apart(wanted.jobs)
        term, found = _JOBS, [as_json(records_of(connection, named.names))]
        if named.ranges:
            term, found = _JOBS_OR_RANGES, [*found, of_ranges(named.ranges)]
        terms, values = f"{terms} AND {term}", [*values, *found]
    if wanted.users is not None:
        terms, values = f"{terms} AND {_USERS}", [*values, as_json(wanted.users)]
    return terms, values


def _last_before(connection: Reader, at: float) -> int:
    """An id behind which the events of this time begin; found by halves, as events are stored in order of time.

    No index has the times: one would cost every event a write.
    """
    [ends] = fetch(connection, _ENDS, [0])
    if ends["next"] is None:
        return 0
    first, end = ends["next"], ends["newest"] + 1
    while first < end:
        middle = (first + end) // 2
        [event] = fetch(connection, _AT, [middle])
        if event["at"] >= at:
            end = middle
        else:
            first = event["id"] + 1
    return int(first) - 1
