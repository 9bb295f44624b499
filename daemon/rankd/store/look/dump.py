"""The live state as a document of ``rankd evaluate``: the state from which the newest full generation was computed.

So ``evaluate`` on the document gives exactly that generation's numbers. Later changes are undone. Jobs that came later
are left out. Jobs that started, ended or were held since are as they were. Usage is the generation's own, at its
instant. The records cannot undo everything: nodes, and jobs updated since (:attr:`Dump.updated`), stay as they are now.
Under ``fcfs``, where priorities count from the first job ever submitted, jobs carry their sequence numbers.

The caller holds one read transaction. SQL is text: the command line must not import SQLAlchemy (0.6 s).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rankd.config.configuration import Configuration
from rankd.config.plugin import is_own
from rankd.core.admission.rights import with_given
from rankd.core.errors import Unavailable
from rankd.core.model.access import AccessList
from rankd.core.model.array import JobName, parse_name
from rankd.core.model.association import Association
from rankd.core.model.device import with_models, without_sum
from rankd.core.model.index_set import each, of, read, union, written
from rankd.core.model.job import BY_INDEX, ENDED_BADLY, SINGLETON, URGENCY_DEFAULT, Event, State
from rankd.core.model.quantity import shown_resources
from rankd.core.model.setting import PrioritySettings
from rankd.store.engine.reading import Reader, Row, fetch, tuples
from rankd.store.engine.word import (
    IN_NUMBERS,
    IN_TEXTS,
    TEXTS,
    VALUES,
    WITH_EACH,
    elements,
    listed,
    members,
    number_at,
    value_at,
)
from rankd.store.look.class_list import class_access
from rankd.store.record.adapter import in_force
from rankd.store.record.all_nodes import all_nodes
from rankd.store.record.given_value import given_values
from rankd.store.schema.whole_view import ON_NODE

_CLASSES = "SELECT name, value, global_default, description, preemption_policy FROM priority_class ORDER BY name"
_GENERATION = """
SELECT number, ranked_at AS at, policy, revision, failures
FROM generations WHERE kind = 'full' ORDER BY number DESC LIMIT 1"""

_WEIGHTS = f"""
SELECT w.key AS name, coalesce(n.value, w.value) AS weight FROM generations g {WITH_EACH} {members("g.weights", "w")}
LEFT JOIN generation_numbers n ON n.generation = g.number AND n.name = 'weight.' || w.key
WHERE g.number = ? ORDER BY w.id"""

_ASSOCIATIONS = """
SELECT a.account, nullif(a."user", '') AS member, a.parent, a.shares, a.shares_parent, a.priority,
    a.is_default, v.usage
FROM associations a JOIN generation_associations v ON v.association_id = a.id AND v.generation = ? ORDER BY a.id"""

_JOBS = """
SELECT j.id, j.revision, j.association_id, j.queue_id, j.qos_id, j."user", a.account,
    q.path AS queue, q.partition, s.name AS qos, p.name AS application,
    j.state, j.held, j.class_value, j.priority_class, j.preemption_policy, j.urgency, j.fixed_priority, j.nodes,
    j.min_nodes, j.resources, j.constraints, j.exclusive, j.time_limit_s, j.begin_at, j.depends_on, j.submitted_at,
    j.eligible_at, j.started_at, j.allocation_id, j.groups, j."array", j.array_limit, j.array_job, j.array_task,
    y.job_id IS NOT NULL AS is_array,
    CASE WHEN y.n_eligible IS NOT NULL THEN coalesce(y.eligible, '') END AS eligible_tasks, j.name
FROM jobs j LEFT JOIN arrays y ON y.job_id = j.id JOIN associations a ON a.id = j.association_id
JOIN queues q ON q.id = j.queue_id
JOIN qos s ON s.id = j.qos_id LEFT JOIN applications p ON p.id = j.application_id
WHERE j.state IN ('pending', 'allocated', 'running') OR j.revision > ? ORDER BY j.id"""

_EVENTS = f"""
SELECT e.id, e.job_id AS job, e.event, e.state, e.at, {number_at("e.detail", "$.allocation")} AS allocation,
    coalesce({value_at("e.detail", "$.tasks")}, {value_at("e.detail", "$.cancelled")}) AS tasks,
    {value_at("e.detail", "$.held.after")} AS turned, {value_at("e.detail", "$.eligible_at.after")} AS eligible
FROM jobs j JOIN job_events e ON e.job_id = j.id WHERE j.revision > ? ORDER BY e.id"""

_RANKED = f"SELECT i.value AS job FROM ranking_chunks c, {elements('c.ids', 'i')} WHERE c.generation = ?"

_APPLICATIONS = f"""
SELECT p.name AS id, q.path AS queue, q.partition, p.created_at, p.state
FROM applications p JOIN queues q ON q.id = p.queue_id
WHERE p.name {IN_TEXTS} ORDER BY p.id"""

_ALLOCATIONS = f"""
SELECT l.id, l.job_id AS job, p.node, {ON_NODE} AS resources, l.devices, n.devices <> '[]' AS lists,
    coalesce(l.started_at, l.allocated_at) AS started_at
FROM allocations l {WITH_EACH} {elements("l.nodes", "e", TEXTS)} JOIN nodes n ON n.name = e.value
JOIN allocation_nodes p ON p.allocation_id = l.id AND p.node = n.name WHERE l.id {IN_NUMBERS} ORDER BY l.id, e.key"""

_DEVICES = f"""
SELECT allocation_id, node, device, model FROM allocation_devices
WHERE allocation_id {IN_NUMBERS} ORDER BY allocation_id, node, position, device"""

_OTHERS = f"SELECT id, state FROM jobs WHERE id {IN_NUMBERS}"
_TASKS = f"""SELECT t.id, t.state, t.array_job, t.array_task FROM {listed(VALUES)} w JOIN jobs t
ON t.array_job = {number_at("w.value", "$[0]")} AND t.array_task = {number_at("w.value", "$[1]")}"""
_SPOILERS = f"""SELECT t.id, t.state, t.array_job, t.array_task FROM arrays y JOIN jobs t ON t.id = (
    SELECT b.id FROM jobs b WHERE b.array_job = y.job_id
    AND b.state IN ({", ".join(f"'{state}'" for state in sorted(ENDED_BADLY))}) LIMIT 1)
WHERE y.job_id {IN_NUMBERS} AND y.n_failed + y.n_cancelled > 0"""
"""Of arrays that can't complete any more, a task that shows it."""

_PLAIN = (
    "class_value",
    "priority_class",
    "preemption_policy",
    "urgency",
    "fixed_priority",
    "nodes",
    "constraints",
    "exclusive",
    "time_limit_s",
    "begin_at",
    "application",
)
"""Columns of a job that become its fields unchanged; null columns are left out."""

_MAKES_ELIGIBLE = (Event.SUBMIT, Event.RELEASE, Event.ELIGIBLE)
_TURNS = {Event.HOLD: True, Event.RELEASE: False}
"""Whether a job is held after the event. An update has both values in its detail."""


class Dump(msgspec.Struct, frozen=True):
    """The document, the generation whose numbers it gives, and the jobs that were updated since.

    ``newer``: how many waiting jobs came after the generation. They are not in the document. ``given``: the access
    lists of classes that were given while rankd runs; the document has them with those of the configuration.
    """

    document: Row
    generation: int
    updated: list[int]
    newer: int
    given: Mapping[str, AccessList]


def dump(connection: Reader, configuration: Configuration, queues: object) -> Dump:
    """The state at the newest full generation.

    Args:
        connection: in a read transaction.
        configuration: the one that was in force for that generation, as its files state it.
        queues: the document of its queues.yaml; None if there is none.

    Raises:
        Unavailable: ``no_generation``: there is no generation yet.
    """
    found = fetch(connection, _GENERATION)
    if not found:
        raise Unavailable("no_generation", "there was no ranking yet; start a prioritizer, or wait a moment")
    generation = found[0]
    configuration = in_force(lambda sql: tuples(connection, sql), configuration).configuration
    jobs, updated, newer = _jobs(connection, generation)
    weighted = _priority(connection, generation, configuration)
    foreign = _foreign(generation, configuration, weighted.weights)
    pending = [job for job in jobs if job["state"] == State.PENDING]
    given = given_values(connection, generation["number"], foreign, pending)
    single = {(job["user"], job["name"]) for job in jobs if _waits_for_others(job) and _is_singleton(job)}
    shown = [
        _shown(job) | given.get(job["id"], {}) | ({"name": job["name"]} if (job["user"], job["name"]) in single else {})
        for job in jobs
    ] + _depended_on(connection, jobs)
    if generation["policy"] == "fcfs":
        shown = [job | {"sequence": job["id"]} for job in shown]
    lists = class_access(connection)
    document = {
        "now": generation["at"],
        "priority": weighted,
        "scheduling": configuration.settings.scheduling,
        **({} if queues is None else {"queues": queues}),
        "priority_classes": [
            row | {"global_default": bool(row["global_default"])} for row in fetch(connection, _CLASSES)
        ],
        "qos": _qos(connection, configuration),
        "associations": _associations(connection, generation, configuration),
        "unknown_association": configuration.settings.admission.unknown_association,
        "access": with_given(configuration.access, lists),
        "nodes": _nodes(connection),
        "applications": _applications(connection, jobs),
        "jobs": sorted(shown, key=lambda job: int(job["id"])),
        "allocations": _allocations(connection, jobs),
    }
    return Dump(document, generation["number"], updated, newer, lists)


def _priority(connection: Reader, generation: Row, configuration: Configuration) -> PrioritySettings:
    """The configuration's settings with the policy and the weights of the generation."""
    weights = {row["name"]: row["weight"] for row in fetch(connection, _WEIGHTS, [generation["number"]])}
    return msgspec.structs.replace(configuration.settings.priority, policy=generation["policy"], weights=weights)


def _foreign(generation: Row, configuration: Configuration, weights: Iterable[str]) -> list[str]:
    """The factors whose values can't be computed from the document: adapters', other packages', failed ones."""
    given = {adapter.factor for adapter in configuration.settings.adapters} | generation["failures"].keys()
    return [name for name in weights if name in given or not is_own(name)]


def _qos(connection: Reader, configuration: Configuration) -> list[object]:
    """The configured QoS, then those of jobs that are no longer configured and have no effect on priorities."""
    configured = configuration.settings.qos
    known = {qos.name for qos in configured}
    gone = [
        row for row in fetch(connection, "SELECT name, usage_factor FROM qos ORDER BY id") if row["name"] not in known
    ]
    return [*configured, *gone]


def _associations(connection: Reader, generation: Row, configuration: Configuration) -> list[Row]:
    """Associations of the configuration as it states them, because the table may have newer ones; others as stored."""
    stated = {(one.account, one.user): one for one in configuration.associations}
    return [
        _association(row, generation["at"], stated.get((row["account"], row["member"])))
        for row in fetch(connection, _ASSOCIATIONS, [generation["number"]])
    ]


def _association(row: Row, now: float, stated: Association | None) -> Row:
    shown = {
        "account": row["account"],
        "user": row["member"],
        "parent": row["parent"],
        "shares": "parent" if row["shares_parent"] else row["shares"],
        "priority": row["priority"],
        "default": row["is_default"],
    }
    if stated is not None:
        names = ("shares", "priority", "default") if row["member"] else ("parent", "shares", "priority", "default")
        shown |= {name: getattr(stated, name) for name in names}
    return shown | ({"usage": row["usage"], "usage_at": now} if row["member"] else {})


def _nodes(connection: Reader) -> list[Row]:
    return [
        {
            "name": node.name,
            "partition": node.partition,
            "state": node.state.value,
            "capacity": shown_resources(node.capacity),
            "labels": node.labels,
            **({"devices": node.devices} if node.devices else {}),
        }
        for node in all_nodes(connection)
    ]


def _jobs(connection: Reader, generation: Row) -> tuple[list[Row], list[int], int]:
    """Jobs that were pending, allocated or running then; those updated since; and the number of newer ones."""
    revision = generation["revision"]
    events = _by_job(fetch(connection, _EVENTS, [revision]))
    ranked = {row["job"] for row in fetch(connection, _RANKED, [generation["number"]])}
    jobs: list[Row] = []
    for row in fetch(connection, _JOBS, [revision]):
        if row["revision"] <= revision:
            jobs.append(row)
        elif before := _before(row, events[row["id"]], revision, is_ranked=row["id"] in ranked):
            jobs.append(before)
    jobs = [job for job in jobs if job["state"] == State.PENDING or not job["is_array"]]
    there = {job["id"] for job in jobs}
    updated = [
        job
        for job, own in events.items()
        if job in there and any(e["event"] == Event.UPDATE and e["id"] > revision for e in own)
    ]
    newer = sum(own[0]["id"] > revision and own[-1]["state"] == State.PENDING for own in events.values())
    return jobs, updated, newer


def _by_job(events: Iterable[Row]) -> Mapping[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for event in events:
        found.setdefault(event["job"], []).append(event)
    return found


def _before(row: Row, events: Sequence[Row], revision: int, *, is_ranked: bool) -> Row | None:
    """A job that has changed since, as it was; None if it did not exist yet or had ended."""
    known = [event for event in events if event["id"] <= revision]
    if not known or known[-1]["state"] not in (State.PENDING, State.ALLOCATED, State.RUNNING):
        return None
    turns = [held for event in known if (held := _TURNS.get(event["event"], event["turned"])) is not None]
    began = [
        event["eligible"] or event["at"]
        for event in known
        if event["eligible"] is not None or event["event"] in _MAKES_ELIGIBLE
    ]
    allocations = [event["allocation"] for event in known if event["event"] == Event.ALLOCATE]
    is_pending = known[-1]["state"] == State.PENDING
    left = [event["tasks"] for event in events if event["id"] > revision and event["tasks"]]
    return row | {
        "array": written(union(*map(read, [row["array"], *left]))) or None,
        "state": known[-1]["state"],
        "held": is_pending and bool(turns and turns[-1]),
        "urgency": URGENCY_DEFAULT if is_ranked and not row["urgency"] else row["urgency"],
        "eligible_at": (began[-1] if is_ranked else None) if is_pending else row["eligible_at"],
        "allocation_id": None if is_pending or not allocations else allocations[-1],
    }


def _shown(job: Row) -> Row:
    """The fields of a job in the document."""
    shown = {name: job[name] for name in ("id", "user", "account", "queue", "partition", "qos", "state")}
    shown |= {name: job[name] for name in _PLAIN if job[name] is not None}
    shown |= {"resources": shown_resources(without_sum(job["resources"])), "submitted_at": job["submitted_at"]}
    if job["urgency"] > URGENCY_DEFAULT:
        shown["privileged"] = True
    if job["min_nodes"] != job["nodes"]:
        shown["min_nodes"] = job["min_nodes"]
    if job["groups"]:
        shown["groups"] = msgspec.json.decode(job["groups"])
    if job["held"]:
        shown["held"] = True
    if job["array"]:
        shown["array"] = job["array"] if job["array_limit"] is None else f"{job['array']}%{job['array_limit']}"
    if job["array_job"] is not None:
        shown |= {"array_job": job["array_job"], "array_task": job["array_task"]}
    if job["state"] == State.PENDING:
        shown["eligible_at"] = job["eligible_at"]
        if _waits_for_others(job):
            shown["depends_on"] = job["depends_on"]
        if job["array"] and job["eligible_tasks"] is not None:
            shown |= {"depends_on": job["depends_on"], "eligible_tasks": job["eligible_tasks"]}
    return shown


def _waits_for_others(job: Row) -> bool:
    return job["state"] == State.PENDING and job["eligible_at"] is None and bool(job["depends_on"])


def _depended_on(connection: Reader, jobs: Sequence[Row]) -> list[Row]:
    """Ended jobs and tasks that others wait for. Only their state matters."""
    listed = {job["id"] for job in jobs}
    waiting = [(one, job["array_task"]) for job in jobs if _waits_for_others(job) for one in job["depends_on"]]
    names = [_named(one, task) for one, task in waiting if one.get("job") is not None]
    wholes = {name.job for name in names if not name.indices}
    tasks = [(name.job, next(each(name.indices))) for name in names if name.indices]
    arrays = {array for array, _ in tasks}
    rows = fetch(connection, _OTHERS, [_list((wholes | arrays) - listed)])
    rows += fetch(connection, _TASKS, [_list(tasks)]) + fetch(connection, _SPOILERS, [_list(wholes)])
    found = {row["id"]: row for row in rows if row["id"] not in listed}
    return [row for row in found.values() if row["state"] not in (State.PENDING, State.ALLOCATED, State.RUNNING)]


def _named(dependency: Row, task: int | None) -> JobName:
    name = parse_name(dependency["job"])
    return name._replace(indices=of([task])) if dependency["type"] == BY_INDEX and task is not None else name


def _is_singleton(job: Row) -> bool:
    return any(one["type"] == SINGLETON for one in job["depends_on"])


def _applications(connection: Reader, jobs: Sequence[Row]) -> list[Row]:
    """The applications of these jobs."""
    named = {(job["partition"], job["queue"], job["application"]) for job in jobs if job["application"] is not None}
    rows = fetch(connection, _APPLICATIONS, [_list({name for *_, name in named})])
    return [row for row in rows if (row["partition"], row["queue"], row["id"]) in named]


def _allocations(connection: Reader, jobs: Sequence[Row]) -> list[Row]:
    held = {job["allocation_id"] for job in jobs if job["state"] != State.PENDING and job["allocation_id"]}
    rows = fetch(connection, _ALLOCATIONS, [_list(held)])
    models = _models(connection, [row["id"] for row in rows if row["devices"]])
    return [_allocation(row, models.get((row["id"], row["node"]), {})) for row in rows]


def _allocation(row: Row, models: Mapping[str, str]) -> Row:
    """An allocation on one node, with its devices if the node lists any. ``models``: of its devices there, by id."""
    shown = {name: row[name] for name in ("job", "node", "started_at")}
    amounts = with_models(row["resources"], models.values()) if models else row["resources"]
    named = {"devices": {row["node"]: list(models)}} if models and row["lists"] else {}
    return shown | {"resources": shown_resources(amounts)} | named


def _models(connection: Reader, allocations: Sequence[int]) -> dict[tuple[int, str], dict[str, str]]:
    """The models of the devices of these allocations by id, for each allocation and node."""
    found: dict[tuple[int, str], dict[str, str]] = {}
    for row in fetch(connection, _DEVICES, [_list(allocations)]):
        found.setdefault((row["allocation_id"], row["node"]), {})[row["device"]] = row["model"]
    return found


def _list(values: Iterable[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()
