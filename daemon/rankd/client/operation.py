"""The operations of a client, each written once for :class:`.Client` and :class:`.SyncClient`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, TypeVar

import msgspec

from rankd.client.given import listed, with_dependencies
from rankd.client.job_form import JobLike, ScriptLike, job_of, jobs_of
from rankd.client.key import with_keys
from rankd.client.look import look, rows
from rankd.client.selection import change_all, selected
from rankd.client.step import Ask, Effort, Plan, answer
from rankd.client.submission import submit_many, submit_one
from rankd.client.waiting import Wanted, wait_for
from rankd.core.errors import Refused
from rankd.core.model.job import FINAL_STATES, State
from rankd.wire.encoding import encode
from rankd.wire.forecast_record import JobWhen
from rankd.wire.job_record import (
    AccountingPage,
    AccountingRow,
    JobHistory,
    JobPage,
    JobRecord,
    JobRow,
    JobScript,
    PastEvent,
)
from rankd.wire.job_selection import JobFilter, JobName, JobRetry, JobSelection, JobSignal, SelectionReply
from rankd.wire.job_update import JobUpdate
from rankd.wire.page import AccountingFilter, HistoryRequest, JobList, JobShow, PriorityList, TableFilter
from rankd.wire.rank_record import PriorityPage, PriorityRow, Why
from rankd.wire.submission import BatchReply, Submitted
from rankd.wire.table_record import NodePage, NodeRow, QueuePage, QueueRow, SharePage, ShareRow

T = TypeVar("T")

Names = JobName | Sequence[JobName]
"""A job, array or task; or a list of them."""
NOT_ENDED = [str(state) for state in State if state not in FINAL_STATES]


class Conditions(TypedDict, total=False):
    """Which jobs: all conditions must hold; the entries of a list are alternatives. ``limit``: the most.

    A single name needs no list.
    """

    ids: Names
    users: str | Sequence[str]
    accounts: str | Sequence[str]
    queues: str | Sequence[str]
    partitions: str | Sequence[str]
    states: str | Sequence[str]
    names: str | Sequence[str]
    qos: str | Sequence[str]
    limit: int


def request(verb: str, message: object, kind: type[T] | None) -> Plan[T]:
    """Send a request once."""
    found: T = yield Ask(verb, encode(message), dict[str, Any] if kind is None else kind)
    return found


def submit(
    job: JobLike | ScriptLike | Sequence[JobLike] | None,
    fields: Mapping[str, Any],
    effort: Effort,
    *,
    key: str | None,
    atomic: bool,
    is_local: bool,
) -> Plan[Submitted | BatchReply]:
    """Submit a job (a :class:`JobRequest`, a mapping, or fields), a script (its text or a path), or a list of jobs.

    Each job gets a key, so that a request without an answer is repeated and makes no second job. ``key``: your own;
    in a list, a place follows it. Of a script, ``args`` are its arguments. Lines #RANKD and #SBATCH of a script count
    as for `rankd submit`, below the fields; ``directives="ignore"`` leaves them out. ``warning`` of the
    answer has what the lines of a script and rankd warn of, a line each. The former are Python warnings, too.
    """
    if isinstance(job, Sequence) and not isinstance(job, str):
        if fields:
            raise TypeError("a list of jobs has no further fields; write them into each job")
        jobs = with_keys(jobs_of(job, is_local=is_local), key) if job else []
        if not jobs:
            return BatchReply(accepted=[], rejected=[])
        return (yield from submit_many(jobs, effort, atomic=atomic))
    said = list[str]()
    one = with_keys([job_of(job, fields, is_local=is_local, said=said)], key)[0]
    accepted = yield from submit_one(one, effort)
    texts = [*said, *([] if accepted.warning is None else [accepted.warning])]
    return msgspec.structs.replace(accepted, warning="\n".join(texts) or None)


def wait(jobs: Names, effort: Effort, timeout_s: float | None) -> Plan[JobRecord | list[JobRecord]]:
    """The record of a job once it has ended, or those of a list."""
    is_one = isinstance(jobs, int | str)
    records = yield from wait_for([jobs] if isinstance(jobs, int | str) else list(jobs), effort, timeout_s)
    return records[0] if is_one and len(records) == 1 else records


def wanted_events(jobs: Names | None, users: str | Sequence[str] | None) -> Wanted:
    """Which events to follow."""
    return Wanted(jobs=None if jobs is None else listed(jobs), users=None if users is None else listed(users))


def show(job: JobName, effort: Effort) -> Plan[JobRecord]:
    """The record of a job, an array or a task."""
    return look("job.show", JobShow(id=job), JobRecord, effort)


def why(job: JobName, effort: Effort) -> Plan[Why]:
    """Why a job has its rank, and why it waits."""
    return look("job.why", JobShow(id=job), Why, effort)


def when(job: JobName, effort: Effort) -> Plan[JobWhen]:
    """When a pending job will start."""
    return look("job.when", JobShow(id=job), JobWhen, effort)


def script(job: JobName, effort: Effort) -> Plan[str]:
    """The script of an own job."""
    found: JobScript = yield from look("job.script", JobShow(id=job), JobScript, effort)
    return found.script


def history(job: JobName, effort: Effort) -> Plan[list[PastEvent]]:
    """The events of a job, oldest first."""
    return rows("job.history", "events", HistoryRequest(id=job), JobHistory, effort)


def queue(conditions: Conditions, effort: Effort) -> Plan[list[JobRow]]:
    """Jobs by id; by default those that have not ended."""
    chosen = _fields(conditions)
    wanted = JobList(**{"states": NOT_ENDED, **chosen})
    found: list[JobRow] = yield from rows("job.list", "jobs", wanted, JobPage, effort, conditions.get("limit"))
    return found[::-1]


def acct(conditions: Conditions, effort: Effort, since: float | None, until: float | None) -> Plan[list[AccountingRow]]:
    """What jobs used, by id."""
    wanted = AccountingFilter(since=since, until=until, **_fields(conditions))
    most = conditions.get("limit")
    found: list[AccountingRow] = yield from rows("job.acct", "jobs", wanted, AccountingPage, effort, most)
    return found[::-1]


def prio(conditions: Conditions, effort: Effort) -> Plan[list[PriorityRow]]:
    """Pending jobs by rank."""
    wanted = PriorityList(**_fields(conditions))
    return rows("priority.list", "jobs", wanted, PriorityPage, effort, conditions.get("limit"))


def nodes(effort: Effort) -> Plan[list[NodeRow]]:
    """All nodes."""
    return rows("node.list", "nodes", TableFilter(), NodePage, effort)


def queues(effort: Effort) -> Plan[list[QueueRow]]:
    """All queues."""
    return rows("queue.list", "queues", TableFilter(), QueuePage, effort)


def shares(effort: Effort) -> Plan[list[ShareRow]]:
    """All accounts and users that the asker sees."""
    return rows("share.list", "shares", TableFilter(), SharePage, effort)


def act(
    verb: str, jobs: Names | None, conditions: Conditions, effort: Effort, *, dry_run: bool
) -> Plan[SelectionReply]:
    """Change jobs that are named or that meet the conditions."""
    chosen = JobFilter(**_fields(conditions)) if conditions else None
    id_, ids = selected(jobs, chosen)
    if chosen is not None and jobs is not None:
        raise Refused("usage", "name jobs, or give conditions, not both", "jobs")
    selection = JobSelection(id=id_, ids=ids, filter=chosen, dry_run=dry_run)
    return (yield from change_all(verb, selection, effort))


def send_signal(
    jobs: Names | None, signal: str | int, conditions: Conditions, effort: Effort, *, dry_run: bool
) -> Plan[SelectionReply]:
    """Send a signal to the processes of running jobs."""
    chosen = JobFilter(**_fields(conditions)) if conditions else None
    id_, ids = selected(jobs, chosen)
    if chosen is not None and jobs is not None:
        raise Refused("usage", "name jobs, or give conditions, not both", "jobs")
    selection = JobSignal(id=id_, ids=ids, filter=chosen, dry_run=dry_run, signal=signal)
    return (yield from change_all("job.signal", selection, effort))


def update(jobs: Names, changes: Mapping[str, Any], effort: Effort, *, dry_run: bool) -> Plan[SelectionReply]:
    """Change fields of pending jobs."""
    id_, ids = selected(jobs, None)
    document = {"id": id_, "ids": ids, "dry_run": dry_run, **with_dependencies(changes)}
    try:
        selection = msgspec.convert(document, JobUpdate, strict=True)
    except msgspec.ValidationError as error:
        raise Refused("bad_request", f"{error}".replace("`$.", "`")) from None
    return (yield from change_all("job.update", selection, effort))


def retry(job: JobName, effort: Effort, *, failed: bool, held: bool, key: str | None) -> Plan[Submitted]:
    """Submit an ended job again."""
    own = with_keys([{}], key)[0]["key"]
    message = JobRetry(id=job, failed=failed, held=held, key=own)
    found: Submitted = yield from answer(Ask("job.retry", encode(message), Submitted), effort)
    return found


def _fields(conditions: Conditions) -> dict[str, Any]:
    """The fields of a filter.

    Raises:
        TypeError: there is no such condition.
    """
    unknown = conditions.keys() - Conditions.__annotations__.keys()
    if unknown:
        message = f"there is no condition '{min(unknown)}'; there are {', '.join(sorted(Conditions.__annotations__))}"
        raise TypeError(message)
    return {name: listed(value) for name, value in conditions.items() if name != "limit"}  # type: ignore[arg-type] # all but the limit
