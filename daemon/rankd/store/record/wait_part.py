"""What jobs waited for: six columns of each job's row, and the causes of each kind of job over time.

Nothing is written per job while it waits. A cycle writes a row only when the cause of a whole kind changes
(:func:`save_spells`). A job's columns are counted when its own record changes in how it waits, starts or ends
(:func:`count_waits`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from sqlalchemy import bindparam, delete, func, select

from rankd.core.change.job_change import Change, Value
from rankd.core.model.job import FINAL_STATES, Event, State, next_state
from rankd.core.model.wait_part import COLUMNS, Key, Kind, Spell, WaitCause, Waiting, cause_of_reason, counted, thinned
from rankd.store.engine.bulk import bulk_insert, bulk_update
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import listed, values_of
from rankd.store.engine.plan import most
from rankd.store.engine.prepared import run_each
from rankd.store.engine.word import TEXTS
from rankd.store.schema.table import jobs, reason_spells

MOST_SPELLS = 64
"""More spells of a kind are thinned, the older ones first."""
KEPT_S = 86_400.0
"""How long the causes of a kind are kept of which no job waits any more."""
_FORGET_AT_ONCE = 200

_OF, _S = jobs.c, reason_spells.c
_KEY = (_S.queue_id, _S.shape, _S.time_limit_s, _S.user, _S.application_id)
_COLUMNS = ("queue_id", "shape", "time_limit_s", "user", "application_id", "since", "cause")
_WANTED, _ARRAY = listed("wanted"), jobs.alias("of_array")
_ROWS = (
    select(
        _OF.id,
        _OF.state,
        _OF.held,
        _OF.urgency,
        _OF.blocked_by,
        func.coalesce(_OF.array_limit, _ARRAY.c.array_limit).label("array_limit"),
        _OF.submitted_at,
        _OF.waited_until,
        _OF.queue_id,
        _OF.shape,
        _OF.time_limit_s,
        _OF.user,
        _OF.application_id,
        *(_OF[name] for name in COLUMNS.values()),
    )
    .select_from(_WANTED.join(jobs, _OF.id == _WANTED.c.value).outerjoin(_ARRAY, _ARRAY.c.id == _OF.array_job))
    .where(_OF.waited_s.is_(None))
)
_OF_SHAPES = _S.shape.in_(values_of("shapes"))
_SPELLS = (
    select(*_KEY, _S.since, _S.cause)
    .where(_OF_SHAPES, _S.queue_id.in_(values_of("queues")), _S.user.in_(values_of("users", TEXTS)))
    .order_by(*_KEY, _S.since)
)
_LONG = select(*_KEY).where(_OF_SHAPES).group_by(*_KEY).having(func.count() > most(MOST_SPELLS))
_ALL = select(*_KEY, _S.since, _S.cause).order_by(*_KEY, _S.since)
_GONE = select(*_KEY, _S.since).where(_S.cause == "", _S.since < bindparam("before")).limit(most(_FORGET_AT_ONCE))
_IS_OF = (
    _S.queue_id == bindparam("queue"),
    _S.shape == bindparam("of_shape"),
    _S.time_limit_s == bindparam("limit"),
    _S.user == bindparam("of_user"),
    _S.application_id == bindparam("application"),
)
_SPELLS_OF_ONE = select(*_KEY, _S.since, _S.cause).where(*_IS_OF).order_by(_S.since)
_FORGET = delete(reason_spells).where(*_IS_OF, _S.since <= bindparam("until"))
_FORGET_ONE = delete(reason_spells).where(*_IS_OF, _S.since == bindparam("at"))

_COUNTS = frozenset(Event) - {Event.SUBMIT, Event.SPLIT, Event.IDLE}
"""Events that may change how a job waits. An array that loses tasks waits on."""
_WAITS = (State.PENDING, State.ALLOCATED)


class FoundReason(Protocol):
    """A reason of a cycle, for the jobs of a kind."""

    queue: int
    shape: int
    time_limit_s: float
    user: str
    application: int
    reason: str


def save_spells(connection: Connection, new: Collection[Any], gone: Collection[Any] | None, now: float) -> None:
    """Note since when jobs of each kind wait for what. Writes only kinds of which the cause has changed.

    ``new``: reasons that the last cycle did not have; ``gone``: those that only the last one had. ``gone`` is None if
    the last ones are not known; then ``new`` are all reasons.
    """
    last = _causes(new)
    if gone is None:
        stored = {key: history[-1].cause for key, history in _histories(connection.execute(_ALL)).items()}
    else:
        stored = dict(_causes(gone))
    keys = stored.keys() | last.keys()
    changed = {key: last.get(key) for key in keys if stored.get(key) is not last.get(key)}
    if not changed:
        return
    run_each(connection, _FORGET_ONE, [_named(key, at=now) for key in changed])
    rows = [(*key, now, cause.value if cause else "") for key, cause in changed.items()]
    bulk_insert(connection, "reason_spells", _COLUMNS, rows)
    _forget(connection, changed, now)


def _causes(reasons: Iterable[FoundReason]) -> dict[Key, WaitCause]:
    return {
        (row.queue, row.shape, row.time_limit_s, row.user, row.application): cause_of_reason(row.reason)
        for row in reasons
    }


def _forget(connection: Connection, changed: Collection[Key], now: float) -> None:
    """Thin long histories, and forget kinds of which no job has waited for long."""
    rows = connection.execute(_LONG, {"shapes": {key[1] for key in changed}})
    long = [key for row in rows if (key := (row[0], row[1], row[2], row[3], row[4])) in changed]
    found = _histories(row for key in long for row in connection.execute(_SPELLS_OF_ONE, _named(key)))
    old = [_named(key, at=spell.since) for key, spells in found.items() for spell in thinned(spells, MOST_SPELLS)]
    run_each(connection, _FORGET_ONE, old)
    gone = connection.execute(_GONE, {"before": now - KEPT_S}).all()
    run_each(connection, _FORGET, [_named(tuple(row[:5]), until=row[5]) for row in gone])


def _named(key: Sequence[Any], **others: object) -> dict[str, object]:
    return dict(zip(("queue", "of_shape", "limit", "of_user", "application"), key, strict=True)) | others


def _histories(rows: Iterable[Sequence[Any]]) -> dict[Key, list[Spell]]:
    found: dict[Key, list[Spell]] = {}
    for *key, since, cause in rows:
        found.setdefault((key[0], key[1], key[2], key[3], key[4]), []).append(
            Spell(since, WaitCause(cause) if cause else None)
        )
    return found


def count_waits(connection: Connection, changes: Sequence[Change], now: float) -> dict[int, dict[str, Value]]:
    """The columns of the jobs whose way of waiting may change, counted up to these changes, by job.

    The caller writes them together with the changes.
    """
    concerned = [change for change in changes if change.state in _WAITS and change.event in _COUNTS]
    if not concerned:
        return {}
    rows, waiting, histories = _read(connection, list(dict.fromkeys(change.job for change in concerned)))
    ended: dict[int, float] = {}
    for change in concerned:
        job = change.job
        if job not in waiting or job in ended:
            continue
        after = next_state(job, change.state, change.event)
        at = _instant(change, now)
        one = counted(waiting[job], _of_kind(histories, rows[job]), at)
        waiting[job] = _changed(one, change, after)
        if after is State.RUNNING or after in FINAL_STATES:
            ended[job] = one.until - rows[job].submitted_at
    return {job: _columns(one, ended.get(job)) for job, one in waiting.items()}


def count_up(connection: Connection, wanted: Sequence[int], now: float) -> None:
    """Count the waits of these jobs up to now: their records are about to name another cause, without an event."""
    rows, waiting, histories = _read(connection, wanted)
    counts = {job: counted(waiting[job], _of_kind(histories, row), now) for job, row in rows.items()}
    columns = {job: _columns(one, None) for job, one in counts.items()}
    names = (*COLUMNS.values(), "waited_until", "waited_s")
    bulk_update(connection, "jobs", names, [(*map(of.get, names), job) for job, of in columns.items()])


def _read(
    connection: Connection, wanted: Sequence[int]
) -> tuple[dict[int, Any], dict[int, Waiting], dict[Key, list[Spell]]]:
    """The rows of those of these jobs that wait for their first start, and what jobs of their kinds waited for."""
    rows = {row.id: row for row in connection.execute(_ROWS, {"wanted": wanted})}
    waiting = {job: _waiting(row) for job, row in rows.items()}
    return rows, waiting, _of_kinds(connection, [rows[job] for job, one in waiting.items() if one.cause is None])


def _of_kinds(connection: Connection, eligible: Sequence[Any]) -> dict[Key, list[Spell]]:
    """At least the histories that :func:`_of_kind` may use for the jobs of these rows."""
    if not eligible:
        return {}
    wanted = {
        "shapes": {row.shape for row in eligible},
        "queues": {0, *(row.queue_id for row in eligible)},
        "users": {"", *(row.user for row in eligible)},
    }
    return _histories(connection.execute(_SPELLS, wanted))


def _waiting(row: Any) -> Waiting:  # noqa: ANN401 - a row of _ROWS
    return Waiting(
        state=State(row.state),
        held=bool(row.held),
        urgency=row.urgency,
        blocked_by=row.blocked_by,
        limited=row.array_limit is not None or row.application_id is not None,
        until=row.submitted_at if row.waited_until is None else row.waited_until,
        parts=dict(zip(COLUMNS, row[-len(COLUMNS) :], strict=True)),
    )


def _changed(one: Waiting, change: Change, after: State) -> Waiting:
    """How the job waits after the change, for a further change in the same transaction."""
    columns: Mapping[str, Any] = change.columns
    return msgspec.structs.replace(
        one,
        state=after,
        held=bool(columns.get("held", one.held)),
        urgency=columns.get("urgency", one.urgency),
        blocked_by=columns.get("blocked_by", one.blocked_by),
    )


def _instant(change: Change, now: float) -> float:
    """When it changed: starts and ends are reported later."""
    at = change.columns.get("started_at") if change.event is Event.START else change.columns.get("ended_at")
    return float(at) if isinstance(at, (int, float)) else now


def _of_kind(histories: Mapping[Key, list[Spell]], row: Any) -> list[list[Spell]]:  # noqa: ANN401 - a row of _ROWS
    """The histories of the job's kind, those that count first before the others."""
    if not histories:
        return []
    kind = Kind(row.queue_id, row.shape, row.time_limit_s, row.user, row.application_id)
    return [histories[key] for key in kind.keys() if key in histories]  # noqa: SIM118 - not a mapping


def _columns(one: Waiting, whole: float | None) -> dict[str, Value]:
    columns: dict[str, Value] = {name: one.parts.get(cause, 0.0) for cause, name in COLUMNS.items()}
    return columns | {"waited_until": one.until, "waited_s": whole}
