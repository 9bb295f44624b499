"""The selection of a request for many jobs: read, checked, looked up again in each part; and the answer that fits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from rankd.core.admission.permission import ThingsOf, check
from rankd.core.admission.privacy import sees_all
from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import FOR_NOTHING
from rankd.core.errors import AboveLimit, Refused
from rankd.core.model.array import by_kind
from rankd.core.model.id_range import apart, written_range
from rankd.store.engine.connection import Connection
from rankd.store.engine.reading import Reader
from rankd.store.record.job_action import closed_jobs, select_ids
from rankd.store.record.job_name import Target, Targets, jobs_in, targets_of
from rankd.store.record.job_range import arrays_among, nothing_in, unknown
from rankd.wire.codec import decode_strict
from rankd.wire.job_selection import JobName
from rankd.wire.message import Failed, JobFilter, JobSelection, SelectionReply

Selection = TypeVar("Selection", bound=JobSelection)

MOST_DONE = 50_000
MOST_FAILED_BYTES = 512 * 2**10
"""Bytes of failures in a reply, besides :data:`MOST_DONE` ids: NATS servers accept messages of 1 MB."""

MOST_NAMES_BYTES = 128 * 2**10
"""Bytes of the names of jobs in a reply. They leave less room for failures."""


class By(NamedTuple):
    """Who asks, and for what: the name of the verb."""

    asker: Submitter
    action: str


STATUS = {
    "unknown_job": 404,
    "unknown_priority_class": 404,
    "unknown_dependency": 404,
    "too_large": 413,
    "array_too_large": 413,
    **dict.fromkeys(
        (
            "not_owner",
            "admin_hold",
            "urgency_not_allowed",
            "unknown_association",
            "queue_access",
            "qos_access",
            "class_access",
            "account_access",
            "system_priority_class",
        ),
        403,
    ),
    **dict.fromkeys(("already_ended", "not_pending", "not_held", "not_running"), 409),
    **dict.fromkeys(
        ("too_many_pending", "too_many_shapes", "too_many_constraints", "too_many_applications", "too_many_signals"),
        429,
    ),
}
"""The status for a single job that can't be changed, by code; 400 for other codes."""


def read_selection(payload: bytes, kind: type[Selection]) -> Selection:
    """Decode a request. One without jobs is refused here: a refusal in a shared transaction would restart that."""
    selection = decode_strict(payload, kind)
    if selection.filter is None and selection.id is None and not selection.ids:
        raise Refused("empty_selection", "name the jobs: id, ids, or a filter", "id")
    return selection


def chosen_filter(selection: JobSelection, asker: Submitter, action: str) -> JobFilter | None:
    """The filter; an ordinary user's filter selects only the user's own jobs.

    An administrator of queues may name other users. Their jobs in other queues then fail.

    Raises:
        Refused: ``admins_only``: an ordinary user's filter names other users.
    """
    chosen = selection.filter
    if chosen is None or asker.privileged:
        return chosen
    others = [user for user in chosen.users or () if user != asker.user]
    for user in others:
        check(asker, action, ThingsOf(user, "changing jobs"))
    if others:
        return chosen
    return msgspec.structs.replace(chosen, users=[asker.user])


def still_selected(connection: Connection, targets: Sequence[Target], chosen: JobFilter | None) -> Sequence[Target]:
    """Those of these jobs that the filter still selects."""
    if chosen is None:
        return targets
    ids = [target.job for target in targets if not target.is_descendant]
    still = set(select_ids(connection, msgspec.structs.replace(chosen, id=None, ids=ids)))
    return [target for target in targets if target.is_descendant or target.job in still]


def selected_by(connection: Connection, chosen: ByRecord) -> list[Target]:
    """The jobs that the filter selects. What belongs to an array that it names as a whole, or in a range, says so."""
    found = select_ids(connection, chosen.filter)
    ranges = apart(chosen.filter.ids or ()).ranges
    in_ranges = arrays_among(connection, found) if ranges else {}
    arrays = {record: array for record, array in in_ranges.items() if any(array in ids for ids in ranges)}
    arrays |= chosen.arrays
    return [Target(job, of_whole=job in arrays, array=arrays.get(job)) for job in found]


def closed_to(connection: Connection, names: Sequence[JobName], by: By) -> set[int]:
    """The named jobs and arrays of which the asker may know nothing."""
    return set() if sees_all(by.asker) else closed_jobs(connection, jobs_in(names), by.asker, by.action)


def reader_of(connection: Any) -> Reader:  # noqa: ANN401 - SQLAlchemy's types leave the driver's connection open
    """The driver's connection, for queries that are text."""
    reader: Reader = connection.connection
    return reader


class ByRecord(NamedTuple):
    """A filter with the ids of records in place of names, and the names that mean nothing.

    ``arrays``: the array of each record that is meant because the whole array was named.
    """

    filter: JobFilter
    failed: list[Failed]
    arrays: Mapping[int, int] = {}


def names_of(selection: JobSelection | JobFilter) -> list[JobName]:
    """All names of a request or a filter."""
    return [*([] if selection.id is None else [selection.id]), *(selection.ids or ())]


def is_single(selection: JobSelection) -> bool:
    """Whether the request names one job, array or task: if that can't be changed, the request fails."""
    return selection.id is not None and not apart([selection.id]).ranges


def by_record(connection: Connection, chosen: JobFilter, closed: Collection[int] = ()) -> ByRecord:
    """The filter with the ids of the records that its names mean; tasks without one are left out. Ranges of ids stay.

    ``closed``: jobs and arrays of which nothing is looked up.
    """
    if chosen.id is None and chosen.ids is None:
        return ByRecord(chosen, [])
    named = apart(names_of(chosen))
    targets = targets_of(connection, named.names, closed)
    ids = [target.job for target in targets.found if target.task is None]
    whole = msgspec.structs.replace(chosen, id=None, ids=[*ids, *map(written_range, named.ranges)])
    arrays = {target.job: target.array for target in targets.found if target.array is not None}
    if chosen.after is not None:  # the page before has reported them
        return ByRecord(whole, [], arrays)
    missing = unknown(connection, by_kind(named.names)[0], chosen.users)
    empty = [nothing_in(connection, one, chosen.users) for one in named.ranges]
    failed = [*targets.failed, *missing, *(failure for failure in empty if failure is not None)]
    return ByRecord(whole, failed, arrays)


def with_room(targets: Sequence[Target], full: Mapping[int, AboveLimit]) -> Targets:
    """The targets without those tasks whose arrays are at a limit; these as failed."""
    gone = [one for one in targets if one.task is not None and one.job in full]
    failed = [
        Failed(
            id=one.name,
            code=full[one.job].code,
            message=f"{full[one.job].message}; a task that is named alone counts as a job, so name the whole array",
        )
        for one in gone
    ]
    return Targets([one for one in targets if one not in set(gone)], failed)


class Total:
    """The answers about all parts of a request. ``failed``: the failures before the first part."""

    def __init__(self, failed: list[Failed]) -> None:
        self.done: list[int] = []
        self.failed = failed
        self._names: list[str] = []
        self._jobs = 0
        self._warning: str | None = None

    def take(self, reply: SelectionReply) -> None:
        """Add the answer about a part."""
        self.done += reply.done
        self.failed += reply.failed
        self._names += map(str, reply.done) if reply.names is None else reply.names
        self._jobs += len(reply.done) if reply.jobs is None else reply.jobs
        self._warning = self._warning or reply.warning

    def fail_for_nothing(self, targets: Iterable[Target], verb: str) -> None:
        """Add a failure for each array that was named as a whole, and to none of whose tasks the action applied."""
        array_of = {one.job: one.array for one in targets if one.array is not None}
        touched = {array_of.get(job) for job in self.done}
        failed = {str(one.id).partition("_")[0] for one in self.failed}
        code, message = FOR_NOTHING[verb]
        for array in sorted(set(array_of.values()) - touched):
            if str(array) in failed:
                continue
            self.failed.append(Failed(id=array, code=code, message=message.format(array)))

    def fitting_reply(self, last: int | None) -> SelectionReply:
        """A reply that fits into a message: the first jobs, and the number of all if there are more."""
        names, size = self._first_names(), 0
        room = MOST_FAILED_BYTES - sum(len(name) + 3 for name in names or ())
        shown = 0
        while shown < len(self.failed) and size < room:
            size += len(self.failed[shown].message.encode()) + 100
            shown += 1
        return SelectionReply(
            done=self.done[:MOST_DONE],
            failed=self.failed[:shown],
            done_count=len(self.done) if len(self.done) > MOST_DONE else None,
            failed_count=len(self.failed) if shown < len(self.failed) else None,
            last=last,
            names=names,
            jobs=None if self._jobs == len(self.done) else self._jobs,
            warning=self._warning,
        )

    def _first_names(self) -> list[str] | None:
        """The names of the first jobs that are done; None if all of them are ids."""
        if self._names == list(map(str, self.done)):
            return None
        size, shown = 0, 0
        while shown < min(len(self._names), MOST_DONE) and size < MOST_NAMES_BYTES:
            size += len(self._names[shown]) + 3
            shown += 1
        return self._names[:shown]
