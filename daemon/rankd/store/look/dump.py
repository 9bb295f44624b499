"""A state as a document of ``rankd evaluate``: that of the newest full generation, or that of an earlier instant.

So ``evaluate`` on the document gives exactly that generation's numbers, or what a past cycle decided. Later changes are
undone. Jobs that came later are left out. Jobs that started, ended, were held or updated since are as they were. Usage
is that of the ranking, at its instant. The records cannot undo everything: :attr:`Dump.notes` says what is as it is
now. Under ``fcfs``, where priorities count from the first job ever submitted, jobs carry their sequence numbers.

The caller holds one read transaction. SQL is text: the command line must not import SQLAlchemy (0.6 s).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from rankd.config.configuration import Configuration
from rankd.config.plugin import is_own
from rankd.core.admission.rights import with_given
from rankd.core.model.access import AccessList
from rankd.core.model.array import JobName, parse_name
from rankd.core.model.device import with_models, without_sum
from rankd.core.model.index_set import each, of
from rankd.core.model.job import BY_INDEX, ENDED_BADLY, SINGLETON, URGENCY_DEFAULT, State
from rankd.core.model.node import Node
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
from rankd.store.look.moment import Moment, newest_moment
from rankd.store.look.past_association import associations_then
from rankd.store.look.past_job import as_it_was, can_undo, settled
from rankd.store.look.past_node import nodes_then
from rankd.store.record.adapter import in_force
from rankd.store.record.given_value import given_values
from rankd.store.schema.whole_view import ON_NODE

_CLASSES = "SELECT name, value, global_default, description, preemption_policy FROM priority_class ORDER BY name"
_WEIGHTS = f"""
SELECT w.key AS name, coalesce(n.value, w.value) AS weight FROM generations g {WITH_EACH} {members("g.weights", "w")}
LEFT JOIN generation_numbers n ON n.generation = g.number AND n.name = 'weight.' || w.key
WHERE g.number = ? ORDER BY w.id"""


_JOBS = f"""
SELECT j.id, j.revision, j.association_id, j.queue_id, j.qos_id, j."user", a.account,
    q.path AS queue, q.partition, s.name AS qos, p.name AS application,
    j.state, j.held, j.class_value, j.priority_class, j.preemption_policy, j.urgency, j.fixed_priority, j.nodes,
    j.min_nodes, j.resources, j.constraints, j.exclusive, j.time_limit_s, j.begin_at, j.depends_on, j.submitted_at,
    j.blocked_by, CASE WHEN j.request <> '' THEN {value_at("j.request", "$.held")} END AS asked_held,
    j.eligible_at, j.started_at, j.allocation_id, j.groups, j."array", j.array_limit, j.array_job, j.array_task,
    y.job_id IS NOT NULL AS is_array,
    CASE WHEN y.n_eligible IS NOT NULL THEN coalesce(y.eligible, '') END AS eligible_tasks, j.name,
    (SELECT o.array_limit FROM jobs o WHERE o.id = j.array_job AND o.state <> 'pending') AS of_limit
FROM jobs j LEFT JOIN arrays y ON y.job_id = j.id JOIN associations a ON a.id = j.association_id
JOIN queues q ON q.id = j.queue_id
JOIN qos s ON s.id = j.qos_id LEFT JOIN applications p ON p.id = j.application_id
WHERE j.state IN ('pending', 'allocated', 'running') OR j.revision > ? ORDER BY j.id"""

_EVENTS = f"""
SELECT e.id, e.job_id AS job, e.event, e.state, e.at, {number_at("e.detail", "$.allocation")} AS allocation,
    coalesce({value_at("e.detail", "$.tasks")}, {value_at("e.detail", "$.cancelled")}) AS tasks,
    CASE WHEN e.event IN ('update', 'split') THEN e.detail END AS detail
FROM jobs j JOIN job_events e ON e.job_id = j.id WHERE j.revision > ? ORDER BY e.id"""

_RANKED = f"SELECT i.value AS job FROM ranking_chunks c, {elements('c.ids', 'i')} WHERE c.generation = ?"

_APPLICATIONS = f"""
SELECT p.name AS id, q.path AS queue, q.partition, p.created_at, p.state
FROM applications p JOIN queues q ON q.id = p.queue_id
WHERE p.name {IN_TEXTS} ORDER BY p.id"""

_ALLOCATIONS = f"""
SELECT l.id, l.job_id AS job, p.node, {ON_NODE} AS resources, l.devices, n.devices <> '[]' AS lists,
    l.started_at, l.allocated_at
FROM allocations l {WITH_EACH} {elements("l.nodes", "e", TEXTS)} JOIN nodes n ON n.name = e.value
JOIN allocation_nodes p ON p.allocation_id = l.id AND p.node = n.name WHERE l.id {IN_NUMBERS} ORDER BY l.id, e.key"""

_DEVICES = f"""
SELECT allocation_id, node, device, model FROM allocation_devices
WHERE allocation_id {IN_NUMBERS} ORDER BY allocation_id, node, position, device"""

_OTHERS = f"SELECT id, state FROM jobs WHERE id {IN_NUMBERS} AND revision <= ?"
_TASKS = f"""SELECT t.id, t.state, t.array_job, t.array_task FROM {listed(VALUES)} w JOIN jobs t
ON t.array_job = {number_at("w.value", "$[0]")} AND t.array_task = {number_at("w.value", "$[1]")} AND t.revision <= ?"""
_SPOILERS = f"""SELECT t.id, t.state, t.array_job, t.array_task FROM arrays y JOIN jobs t ON t.id = (
    SELECT b.id FROM jobs b WHERE b.array_job = y.job_id
    AND b.state IN ({", ".join(f"'{state}'" for state in sorted(ENDED_BADLY))}) AND b.revision <= ? LIMIT 1)
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


class Dump(msgspec.Struct, frozen=True):
    """The document, the generation by whose numbers it was made, and the jobs whose updates since can't be undone.

    ``newer``: how many waiting jobs came after the generation. They are not in the document, or not eligible in it.
    ``given``: the access lists of classes that were given while rankd runs; the document has them with those of the
    configuration. ``notes``: what is as it is now, and may have been different.
    """

    document: Row
    generation: int
    updated: list[int]
    newer: int
    given: Mapping[str, AccessList]
    notes: Sequence[str] = ()


def dump(connection: Reader, configuration: Configuration, queues: object, moment: Moment | None = None) -> Dump:
    """The state at the newest full generation, or at ``moment``.

    Args:
        connection: in a read transaction.
        configuration: the one that was in force for that generation, as its files state it.
        queues: the document of its queues.yaml; None if there is none.
        moment: an earlier instant.

    Raises:
        Unavailable: ``no_generation``: there is no generation yet.
    """
    newest = newest_moment(connection)
    moment = newest if moment is None else moment
    base = moment.base
    configuration = in_force(lambda sql: tuples(connection, sql), configuration).configuration
    jobs, updated, newer = _jobs(connection, moment)
    weighted = _priority(connection, base, configuration)
    foreign = _foreign(base, configuration, weighted.weights)
    pending = [job for job in jobs if job["state"] == State.PENDING]
    given = given_values(connection, newest.base["number"], foreign, pending)
    single = {(job["user"], job["name"]) for job in jobs if _waits_for_others(job) and _is_singleton(job)}
    shown = [
        _shown(job) | given.get(job["id"], {}) | ({"name": job["name"]} if (job["user"], job["name"]) in single else {})
        for job in jobs
    ] + _depended_on(connection, jobs, moment.revision)
    if base["policy"] == "fcfs":
        shown = [job | {"sequence": job["id"]} for job in shown]
    lists, nodes = class_access(connection), nodes_then(connection, moment.node_event)
    document = {
        "now": moment.now,
        **({} if moment.now == base["at"] else {"ranked_at": base["at"]}),
        "priority": weighted,
        "scheduling": configuration.settings.scheduling,
        **({} if queues is None else {"queues": queues}),
        "priority_classes": [
            row | {"global_default": bool(row["global_default"])} for row in fetch(connection, _CLASSES)
        ],
        "qos": _qos(connection, configuration),
        "associations": associations_then(connection, base, newest.base["number"], configuration),
        "unknown_association": configuration.settings.admission.unknown_association,
        "access": with_given(configuration.access, lists),
        "nodes": _nodes(nodes.nodes),
        "applications": _applications(connection, jobs),
        "jobs": sorted(shown, key=lambda job: int(job["id"])),
        "allocations": _allocations(connection, jobs),
    }
    is_past = base["number"] != newest.base["number"]
    notes = [*_notes(foreign, configuration), *nodes.notes] if is_past else nodes.notes
    return Dump(document, moment.generation, updated, newer, lists, notes)


def _notes(foreign: Sequence[str], configuration: Configuration) -> list[str]:
    """What is known of the newest ranking alone."""
    notes = [f"values of the factor {name} are those of the newest ranking" for name in foreign]
    if any(adapter.input == "usage" for adapter in configuration.settings.adapters):
        notes.append("usage that adapters brought in is missing in earlier rankings")
    return notes


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


def _nodes(nodes: Iterable[Node]) -> list[Row]:
    return [
        {
            "name": node.name,
            "partition": node.partition,
            "state": node.state.value,
            "capacity": shown_resources(node.capacity),
            "labels": node.labels,
            **({"devices": node.devices} if node.devices else {}),
        }
        for node in nodes
    ]


def _jobs(connection: Reader, moment: Moment) -> tuple[list[Row], list[int], int]:
    """Jobs that were pending, allocated or running then; those whose updates stay; and the number of newer ones.

    Jobs that changed after the ranking wait for the next one: they are not eligible.
    """
    revision, first = moment.revision, min(moment.revision, moment.ranked)
    events = _by_job(fetch(connection, _EVENTS, [first]))
    order = {row["job"] for row in fetch(connection, _RANKED, [moment.base["number"]])}
    is_known = bool(order) and revision == moment.base["revision"]  # the newest order alone is kept
    jobs: list[Row] = []
    for row in fetch(connection, _JOBS, [first]):
        own, is_ranked = events.get(row["id"], []), row["id"] in order if is_known else None
        if found := as_it_was(row, own, revision, is_ranked=is_ranked):
            is_settled = not own or settled(own, revision) <= moment.ranked
            jobs.append(found if is_settled else found | {"eligible_at": None})
    jobs = [job for job in jobs if job["state"] == State.PENDING or not job["is_array"]]
    there = {job["id"] for job in jobs}
    jobs = [job | {"of_limit": None} if job["array_job"] in there else job for job in jobs]
    updated = [job for job, own in events.items() if job in there and not can_undo(own, revision)]
    newer = sum(own[0]["id"] > moment.ranked and own[-1]["state"] == State.PENDING for own in events.values())
    return jobs, updated, newer


def _by_job(events: Iterable[Row]) -> Mapping[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for event in events:
        found.setdefault(event["job"], []).append(event)
    return found


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
        shown |= {"array_job": job["array_job"], "array_task": job["array_task"]} | _limit(job)
    if job["state"] == State.PENDING:
        shown["eligible_at"] = job["eligible_at"]
        if _waits_for_others(job):
            shown["depends_on"] = job["depends_on"]
        if job["array"] and job["eligible_tasks"] is not None:
            shown |= {"depends_on": job["depends_on"], "eligible_tasks": job["eligible_tasks"]}
    return shown


def _limit(job: Row) -> Row:
    """The limit of a task's array that is not in the document."""
    return {} if job["of_limit"] is None else {"array_limit": job["of_limit"]}


def _waits_for_others(job: Row) -> bool:
    return job["state"] == State.PENDING and job["eligible_at"] is None and bool(job["depends_on"])


def _depended_on(connection: Reader, jobs: Sequence[Row], revision: int) -> list[Row]:
    """Jobs and tasks that others wait for, and that had ended at the event ``revision``. Only their state matters."""
    listed = {job["id"] for job in jobs}
    waiting = [(one, job["array_task"]) for job in jobs if _waits_for_others(job) for one in job["depends_on"]]
    names = [_named(one, task) for one, task in waiting if one.get("job") is not None]
    wholes = {name.job for name in names if not name.indices}
    tasks = [(name.job, next(each(name.indices))) for name in names if name.indices]
    arrays = {array for array, _ in tasks}
    rows = fetch(connection, _OTHERS, [_list((wholes | arrays) - listed), revision])
    rows += fetch(connection, _TASKS, [_list(tasks), revision])
    rows += fetch(connection, _SPOILERS, [revision, _list(wholes)])
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
    waiting = {job["allocation_id"] for job in jobs if not job.get("has_started", True)}
    rows = fetch(connection, _ALLOCATIONS, [_list(held)])
    models = _models(connection, [row["id"] for row in rows if row["devices"]])
    return [
        _allocation(row, models.get((row["id"], row["node"]), {}), has_started=row["id"] not in waiting) for row in rows
    ]


def _allocation(row: Row, models: Mapping[str, str], *, has_started: bool) -> Row:
    """An allocation on one node, with its devices if the node lists any. ``models``: of its devices there, by id."""
    began = row["started_at"] if has_started and row["started_at"] is not None else row["allocated_at"]
    shown = {"job": row["job"], "node": row["node"], "started_at": began}
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
