"""Why a job has its rank: its breakdown compared with its neighbours', and the reason why it does not run.

The caller holds one read transaction, so that all numbers are of one generation. SQL is text: the command line uses
this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from rankd.core.admission.dependency import DEPENDENCY, NEVER
from rankd.core.errors import Refused
from rankd.core.model.device import DeviceState, is_device_kind, with_models
from rankd.core.model.device_report import DeviceNote, in_words
from rankd.core.model.index_set import contains, read
from rankd.core.model.job import State
from rankd.core.model.queue import QueueProperties
from rankd.core.model.reason_code import NO_NODE_FITS
from rankd.core.placement.constraint import NODE, parse_constraints
from rankd.core.placement.node_shortage import NodeRoom, node_shortages
from rankd.core.ranking.queue_key import lifted_priority
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import IN_NUMBERS, IN_TEXTS, value_at
from rankd.store.look.device_list import devices
from rankd.store.look.job_name import record_of
from rankd.store.look.late_start import late_start
from rankd.store.look.node_list import nodes
from rankd.store.look.priority_list import priorities_of
from rankd.store.look.rank_look import at_rank
from rankd.store.look.task_row import as_task, cancellation, who_cancelled
from rankd.store.look.waited import waited_so_far

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


OTHER_WITHIN = 500
"""A job of another user is searched within this many ranks. Each rank costs a look-up in the stored order."""

_COLUMNS = """
    id, "user", state, held_by, queue, partition, reason, reason_fact, expected_start_at, reserved_nodes, nodelist,
    ended_at, exit_status, signal, message, array_job, array_task, resources, constraints, exclusive, submitted_at,
    started_at, time_limit_s, cores, max_rss_bytes, cpu_s, measured, waited_dependency_s, waited_held_s, waited_quota_s,
    waited_resources_s, waited_reserved_s, waited_starting_s"""
_KEPT = (DeviceState.TAKEN, DeviceState.DRAINED, DeviceState.FAILED)
MOST_NAMED = 3
_UNMET = "a dependency can't be met any more"


def why(connection: Reader, name: int | str, now: float | None = None) -> Row:
    """The job's ``rank`` of ``of``, its factors, its neighbours ``above`` and ``below``, and why it waits.

    Of a job that waits for its first start, what it waited for counts up to ``now`` (UTC seconds; None: now).
    ``above_other`` is the nearest job above that belongs to another user, if ``above`` belongs to the same user.

    Raises:
        Refused: ``unknown_job``.
    """
    job_id, task, is_cancelled = record_of(connection, name)
    found = fetch(connection, f"SELECT {_COLUMNS} FROM job WHERE id = ?", [job_id])
    if not found:
        raise Refused("unknown_job", f"there is no job {job_id}", "id", status=404)
    record = found[0] | {"cancelled_by": who_cancelled(connection, [job_id]).get(job_id)}
    if task is not None:
        record |= _as_task(connection, record, task, is_cancelled=is_cancelled)
    elif record["state"] == State.CANCELLED and record["message"] is None:
        record["message"] = _unmet(connection, job_id)
    record["late"] = late_start(connection, job_id)
    if not is_cancelled:
        record |= waited_so_far(connection, job_id, time.time() if now is None else now)
    answer = record | {"rank": None, "of": None, "above": None, "above_other": None, "below": None, "path": []}
    asked = {name: answer.pop(name) for name in ("resources", "constraints", "exclusive")}
    answer["memory"] = asked["resources"].get("memory")
    if answer["reason"] == NO_NODE_FITS and answer["reason_fact"]:
        answer["reason_fact"] += out_of_service(connection, asked["constraints"])
    answer["lacks"] = _lacks(connection, answer["partition"], asked) if answer["reason"] == "resources" else []
    rows = priorities_of(connection, [job_id]) if answer["state"] == State.PENDING else []
    if not rows:
        return answer
    own = rows[0]
    answer |= {name: own[name] for name in _PLACE}
    answer["path"] = path = _path(connection, answer.pop("partition"), own["queue"], own["priority"])
    answer["of"] = fetch(connection, "SELECT jobs FROM generation WHERE number = ?", [own["generation"]])[0]["jobs"]
    if own["rank"] is not None:
        for side, rank in (("above", own["rank"] - 1), ("below", own["rank"] + 1)):
            answer[side] = _neighbour(connection, own, at_rank(connection, rank), path)
        above = answer["above"]
        if above is not None and above.get("user") == own["user"]:
            other = _nearest_other(connection, own)
            answer["above_other"] = _neighbour(connection, own, other, path)
    return answer


def _as_task(connection: Reader, record: Row, task: int, *, is_cancelled: bool) -> Row:
    """What the answer about a task without a record says in another way than that about its array."""
    name = {"array_job": record["id"], "array_task": task}
    if not is_cancelled:
        return as_task(record, None) | name | _own_reason(connection, record["id"], task)
    found = cancellation(connection, record["id"], task)
    why = f"{_UNMET}: aftercorr" if found.cause == "dependency" else None
    none = dict.fromkeys(("reason", "reason_fact", "expected_start_at", "reserved_nodes", "nodelist"))
    return none | as_task(record, found) | name | {"message": why}


def _own_reason(connection: Reader, array: int, task: int) -> Row:
    """Why a pending task does not start whose counterpart in another array has not completed; else nothing."""
    sql = "SELECT eligible, unmet FROM arrays WHERE job_id = ? AND n_eligible IS NOT NULL AND eligible IS NOT NULL"
    for row in fetch(connection, sql, [array]):
        none = dict.fromkeys(("expected_start_at", "reserved_nodes"))
        if contains(read(row["unmet"]), task):
            return none | {
                "reason": NEVER,
                "reason_fact": f"aftercorr: the task {task} that it waits for did not complete",
            }
        if not contains(read(row["eligible"]), task):
            return none | {
                "reason": DEPENDENCY,
                "reason_fact": f"aftercorr: the task {task} that it waits for has not ended",
            }
    return {}


def _unmet(connection: Reader, job: int) -> str | None:
    """The dependency because of which a job was cancelled, in words; None if it was cancelled for another reason."""
    sql = f"""SELECT {value_at("detail", "$.unmet")} AS unmet FROM job_event
        WHERE job_id = ? AND event = 'cancel' AND cause = 'dependency'"""
    rows = fetch(connection, sql, [job])
    return f"{_UNMET}: {rows[0]['unmet'] or 'aftercorr'}" if rows else None


def _nearest_other(connection: Reader, own: Row) -> int | None:
    """The nearest job above that belongs to another user; None if no job within :data:`OTHER_WITHIN` ranks does."""
    last, width = own["rank"] - 1, 8
    while last > max(0, own["rank"] - 1 - OTHER_WITHIN):
        ids = [at_rank(connection, rank) for rank in range(last, max(0, last - width), -1)]
        sql = f'SELECT id FROM job WHERE "user" <> ? AND id {IN_NUMBERS}'
        others = {row["id"] for row in fetch(connection, sql, [own["user"], json.dumps(ids)])}
        if found := next((job_id for job_id in ids if job_id in others), None):
            return found
        last, width = last - width, 2 * width
    return None


def _lacks(connection: Reader, partition: str, asked: Row) -> list[Row]:
    """The resources that each large enough node lacks for the job now; vcore in cores."""
    listed = _listed(connection) if any(is_device_kind(kind) for kind in asked["resources"]) else {}
    rooms = [
        NodeRoom(
            name=row["name"],
            capacity=row["capacity"],
            used=_with_devices(row["allocated"], row["capacity"], listed.get(row["name"])),
            labels=row["labels"],
            is_empty=not row["allocations"],
        )
        for row in nodes(connection)
        if row["partition"] == partition and row["state"] == "up" and row["drained_by"] is None
    ]
    found = node_shortages(asked["resources"], asked["constraints"], rooms, exclusive=bool(asked["exclusive"]))
    return [
        msgspec.structs.asdict(lack) | {"taken": [_in_words(device) for device in _taken(listed.get(lack.node, ()))]}
        for lack in found
    ]


def out_of_service(connection: Reader, constraints: str | None) -> str:
    """The nodes that the job names and that take no jobs, each with the reason; empty if there are none."""
    terms = [term for term in parse_constraints(constraints) if term.key == NODE and term.operator == "in"]
    names = sorted(frozenset[str]().union(*(term.values for term in terms)))
    sql = f"SELECT name, state, drained_by, drain_reason FROM node WHERE name {IN_TEXTS} ORDER BY name"
    rows = fetch(connection, sql, [json.dumps(names)]) if names else []
    out = [row for row in rows if row["drained_by"] is not None or row["state"] != "up"]
    told = [
        f"{row['name']} is {'draining' if row['state'] == 'up' else row['state']}"
        + (f": {row['drain_reason']}" if row["drain_reason"] else "")
        for row in out[:MOST_NAMED]
    ]
    more = [f"{len(out) - MOST_NAMED} more are out of service"] if len(out) > MOST_NAMED else []
    return "".join(f". {part.rstrip('.')}" for part in told + more)


def _listed(connection: Reader) -> dict[str, list[Row]]:
    """The devices that nodes list, by node."""
    found: dict[str, list[Row]] = {}
    for device in devices(connection):
        if device["state"] != "gone":
            found.setdefault(device["node"], []).append(device)
    return found


def _taken(own: Sequence[Row]) -> list[Row]:
    """The devices that no job holds, and that are kept from new jobs all the same."""
    return [device for device in own if device["state"] in _KEPT and device["job"] is None]


def _with_devices(
    used: Mapping[str, float], capacity: Mapping[str, float], own: Sequence[Row] | None
) -> Mapping[str, float]:
    """What is not free on a node. Of one that lists devices, all that are not free: a job may hold one that failed."""
    if own is None:
        return used
    free = Counter(device["model"] for device in own if device["state"] == "ok" and device["job"] is None)
    amounts = with_models({}, free.elements())
    return {**used, **{kind: n - amounts.get(kind, 0) for kind, n in capacity.items() if is_device_kind(kind)}}


def _in_words(device: Row) -> str:
    name = f"{device['type']} {device['index']}"
    if device["state"] != DeviceState.TAKEN or not device["taken_by"]:
        return f"{name} is {device['state']}" + (f": {device['reason']}" if device["reason"] else "")
    note = DeviceNote(id=device["id"], state=DeviceState.TAKEN, by=device["taken_by"] or "")
    return in_words(note, name)


def _path(connection: Reader, partition: str, queue: str, priority: int) -> list[Row]:
    """The queues from the job's leaf up to the child of root, with the priority that each passes on to its parent.

    ``shows`` is the priority that the parent uses; ``without`` is the one without this queue's own fence or offset.
    """
    names = queue.split(".")
    paths = [".".join(names[:depth]) for depth in range(len(names), 1, -1)]
    sql = f'SELECT path, policy, "offset" FROM queue_priority WHERE partition = ? AND path {IN_TEXTS}'
    settings = {row["path"]: row for row in fetch(connection, sql, [partition, json.dumps(paths)])}
    shown = []
    for path in paths:
        if path not in settings:  # removed from the configuration
            return []
        row = settings[path]
        properties = QueueProperties(priority_policy=row["policy"], priority_offset=row["offset"])
        lifted = lifted_priority(priority, properties)
        shown.append({"queue": path, **{k: row[k] for k in ("policy", "offset")}, "shows": lifted, "without": priority})
        priority = priority if lifted is None else lifted
    return shown


_PLACE = (
    "rank",
    "generation",
    "ranked_at",
    "priority",
    "override",
    "override_by",
    "class_value",
    "points_sum",
    "factors",
)


def _neighbour(connection: Reader, own: Row, job_id: int | None, path: Sequence[Row]) -> Row | None:
    """Another ranked job, and by how many points each part of its priority differs (positive: it has more).

    ``meets``: for jobs of different queues, the nearest common parent queue, and what each queue below it passes on.
    """
    rows = priorities_of(connection, [job_id]) if job_id is not None else []
    if not rows:
        return {"id": job_id, "gone": True} if job_id is not None else None
    other = rows[0]
    parts = {"class": other["class_value"] - own["class_value"]}
    for mine, theirs in zip(own["factors"], other["factors"], strict=True):
        if mine["points"] is not None and theirs["points"] is not None:
            parts[mine["name"]] = theirs["points"] - mine["points"]
    [task] = fetch(connection, "SELECT array_job, array_task FROM jobs WHERE id = ?", [job_id])
    return {
        "id": other["id"],
        **task,
        "user": other["user"],
        "queue": other["queue"],
        "priority": other["priority"],
        "override": other["override"],
        "difference": other["priority"] - own["priority"],
        "parts": parts,
        "decided_by": decided_by(own, other),
        "meets": _meeting(connection, path, other),
    }


def _meeting(connection: Reader, path: Sequence[Row], other: Row) -> Row | None:
    theirs = _path(connection, other["partition"], other["queue"], other["priority"])
    apart = {row["queue"] for row in path} ^ {row["queue"] for row in theirs}
    mine, its = ([row for row in rows if row["queue"] in apart] for rows in (path, theirs))
    if not mine or not its:
        return None
    return {"queue": mine[-1]["queue"].rpartition(".")[0], "this": mine[-1], "other": its[-1]}


def decided_by(own: Row, other: Row) -> str:
    """Why one of two neighbours is before the other."""
    first, second = (own, other) if own["rank"] < other["rank"] else (other, own)
    if first["priority"] < second["priority"]:
        return "queue"
    if first["priority"] > second["priority"]:
        return "override" if first["override"] else "priority"
    return "submission" if first["queue"] == second["queue"] else "queue order"
