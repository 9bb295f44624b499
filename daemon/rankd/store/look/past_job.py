"""A job's record as it was at an earlier event, from its present record and its events. Pure.

Events record what they changed: updates have each field before and after, and events of arrays the tasks that left.
An update without such a detail, or of a name that its user had left to the defaults, can't be undone: the record stays
as it is now in that field (:func:`can_undo`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rankd.core.model.index_set import read, union, written
from rankd.core.model.job import URGENCY_DEFAULT, Event, State
from rankd.core.model.quantity import parse_resources
from rankd.store.engine.reading import Row

_ACTIVE = (State.PENDING, State.ALLOCATED, State.RUNNING)
_HELD_BEFORE = {Event.RELEASE: True, Event.ALLOCATE: False}
"""Whether a job was held just before an event that tells."""
_HELD_AFTER = {Event.HOLD: True, Event.RELEASE: False}
_MAKES_ELIGIBLE = (Event.SUBMIT, Event.RELEASE, Event.ELIGIBLE)
_TAKES_TASKS = (Event.SPLIT, Event.RUN_OUT)

_PLAIN = (
    "application",
    "array_limit",
    "begin_at",
    "class_value",
    "constraints",
    "depends_on",
    "exclusive",
    "fixed_priority",
    "min_nodes",
    "name",
    "nodes",
    "preemption_policy",
    "priority_class",
    "time_limit_s",
    "urgency",
)
_RESOLVED = ("account", "partition", "qos", "queue")
"""Names that admission fills in if the user leaves them out. Before the first update, null means the default."""


class _Parts(NamedTuple):
    """A job's events, oldest first: those up to an event, and the later ones."""

    known: Sequence[Row]
    later: Sequence[Row]


def as_it_was(row: Row, events: Sequence[Row], revision: int, *, is_ranked: bool | None = None) -> Row | None:
    """The record of a job as it was at the event ``revision``; None if it did not exist yet or had ended.

    Args:
        row: its present record, with ``asked_held``: whether it was submitted as a held job.
        events: all its events, oldest first: ``id``, ``event``, ``state``, ``at``, ``allocation``, ``tasks``, and of
        updates and splits ``detail``.
        revision: the id of an event of any job.
        is_ranked: whether a ranking of just that event has it; None: not known.
    """
    if row["revision"] <= revision:
        return row if row["state"] in _ACTIVE else None
    known = [event for event in events if event["id"] <= revision]
    parts = _Parts(known, events[len(known) :])
    if not known or known[-1]["state"] not in _ACTIVE:
        return None
    was = row | _before_updates(row, parts.later)
    is_pending = known[-1]["state"] == State.PENDING
    allocations = [event["allocation"] for event in known if event["event"] == Event.ALLOCATE]
    tasks = [event["tasks"] for event in parts.later if event["tasks"]]
    held = is_pending and _was_held(row, parts)
    since = row["eligible_at"]
    if is_pending:
        since = _last_beginning(known) or since if is_ranked else _eligible_since(row, parts, held=held)
        since = None if is_ranked is False else since
    return was | {
        "array": written(union(*map(read, [row["array"], *tasks]))) or None,
        "eligible_tasks": _with_tasks(row["eligible_tasks"], parts.later),
        "state": known[-1]["state"],
        "held": held,
        "urgency": URGENCY_DEFAULT if since is not None and not was["urgency"] else was["urgency"],
        "eligible_at": since,
        "allocation_id": None if is_pending or not allocations else allocations[-1],
        "has_started": known[-1]["state"] == State.RUNNING,
    }


def settled(events: Iterable[Row], revision: int) -> int:
    """The job's last event up to ``revision`` that did not only take tasks from it; 0 without one."""
    first, last = 0, 0
    for event in events:
        if event["id"] <= revision:
            first = first or event["id"]
            last = last if event["event"] in _TAKES_TASKS else event["id"]
    return last or first


def can_undo(events: Iterable[Row], revision: int) -> bool:
    """Whether all updates after ``revision`` say what each field was before."""
    later = [event for event in events if event["id"] > revision and event["event"] == Event.UPDATE]
    return all(_is_told(event["detail"]) for event in later)


def _is_told(detail: Mapping[str, Row] | None) -> bool:
    if not detail:
        return False
    return all(detail[name]["before"] is not None for name in _RESOLVED if name in detail)


def _before_updates(row: Row, later: Sequence[Row]) -> Row:
    """The fields that later updates have changed, as they were before."""
    fields: Row = {}
    for event in reversed(later):
        for name, pair in (event["detail"] or {}).items() if event["event"] == Event.UPDATE else ():
            if name == "resources":
                fields[name] = parse_resources(pair["before"])
            elif name in _PLAIN or (name in _RESOLVED and pair["before"] is not None):
                fields[name] = pair["before"]
    if "min_nodes" in fields and fields["min_nodes"] is None:
        fields["min_nodes"] = fields.get("nodes", row["nodes"])
    return fields


def _changed(event: Row, name: str) -> Row | None:
    """The field before and after an update, if it is an update that changed it."""
    return (event["detail"] or {}).get(name) if event["event"] == Event.UPDATE else None


def _was_held(row: Row, parts: _Parts) -> bool:
    """The next event that tells decides; without one, the record still has the value."""
    before = bool(row["asked_held"])
    for event in parts.known:
        if event["event"] == Event.SPLIT:
            before = bool((event["detail"] or {}).get("held", before))
        pair = _changed(event, "held")
        before = _HELD_AFTER.get(event["event"], before) if pair is None else bool(pair["after"])
    for event in parts.later:
        if event["event"] == Event.HOLD:  # a held job may be held again
            return before
        if event["event"] in _HELD_BEFORE:
            return _HELD_BEFORE[event["event"]]
        if pair := _changed(event, "held"):
            return bool(pair["before"])
    return bool(row["held"])


def _eligible_since(row: Row, parts: _Parts, *, held: bool) -> float | None:
    """Since when a pending job was eligible; None if it was not."""
    if held:
        return None
    since: float | None = row["eligible_at"]
    for event in parts.later:
        kind, pair = event["event"], _changed(event, "eligible_at")
        if pair is not None:
            since = pair["before"]
        elif kind in (Event.RELEASE, Event.ELIGIBLE):
            since = None
        elif kind == Event.ALLOCATE:
            since = _last_beginning(parts.known) or since
        elif kind in (Event.HOLD, Event.CANCEL, Event.RUN_OUT):
            waited = _waited(row, parts) if kind == Event.HOLD else row["blocked_by"] is not None
            since = None if waited else _last_beginning(parts.known)
        else:
            continue
        break  # the next event that tells decides
    return since


def _waited(row: Row, parts: _Parts) -> bool:
    """Whether a job that was held later had a condition to wait for, as far as its events tell."""
    has_condition = bool(row["depends_on"]) or (row["begin_at"] or 0.0) > row["submitted_at"]
    return has_condition and not any(event["event"] == Event.ELIGIBLE for event in parts.known)


def _last_beginning(known: Sequence[Row]) -> float | None:
    found: float | None = None
    for event in known:
        if pair := _changed(event, "eligible_at"):
            found = pair["after"]
        elif event["event"] == Event.SPLIT and event["detail"] and event["detail"].get("array_job") is not None:
            found = event["detail"].get("eligible_at")
        elif event["event"] in _MAKES_ELIGIBLE:
            found = event["at"]
    return found


def _with_tasks(eligible: str | None, later: Sequence[Row]) -> str | None:
    """Of an array that waits by index, the tasks that could start, with those that have started since."""
    if eligible is None:
        return None
    started = [event["tasks"] for event in later if event["event"] in _TAKES_TASKS and event["tasks"]]
    return written(union(*map(read, [eligible, *started]))) or ""
