"""Nodes, applications, and what running jobs use of both, of queues and of accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rankd.core.errors import Problem
from rankd.core.evaluate.admission import Job
from rankd.core.evaluate.amount import add, read_amounts
from rankd.core.evaluate.document import ApplicationEntry, Document, Id, JobEntry
from rankd.core.evaluate.forest import Forest
from rankd.core.model.node import Node, NodeState
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import DEFAULT_QUEUE

APPLICATION_STATES = frozenset(
    {
        "new", "accepted", "starting", "running", "resuming", "completing", "completed", "failing", "failed",
        "rejected", "expired",
    }
)  # fmt: skip
"""YuniKorn's, in lower case."""

COUNTED = (NodeState.UP, NodeState.DRAINING)


class Held(msgspec.Struct, frozen=True):
    """What a running job holds of one node, since when."""

    job: Job
    resources: Resources
    since: float


class Application(msgspec.Struct, frozen=True):
    """An application of a leaf queue; ``used`` and ``pending`` as stated, None where its jobs say."""

    id: Id
    queue: int
    created_at: float
    state: str
    used: Resources | None
    pending: Resources | None


def read_nodes(document: Document, forest: Forest, problems: list[Problem]) -> list[Node]:
    """The nodes, with what the document states outright that they use."""
    first = forest.names[0] if forest.names else ""
    return [
        Node(
            name=entry.name,
            partition=first if entry.partition is None else entry.partition,
            capacity=read_amounts(entry.capacity, f"$.nodes[{place}].capacity", problems),
            used=read_amounts(entry.used or {}, f"$.nodes[{place}].used", problems),
            labels=entry.labels,
            state=entry.state,
        )
        for place, entry in enumerate(document.nodes)
    ]


def read_held(
    document: Document, nodes: Sequence[Node], active: Sequence[Job], problems: list[Problem]
) -> tuple[list[Held], list[Node]]:
    """What jobs hold, and the nodes with it in use (but where their use is stated).

    An exclusive job holds its nodes whole. Allocations of jobs that were not taken hold their nodes all the same.
    """
    jobs, entries = {job.entry.id: job for job in active}, {entry.id: entry for entry in document.jobs}
    by_name = {node.name: node for node in nodes}
    held: list[Held] = []
    used: dict[str, Resources] = {}
    for place, allocation in enumerate(document.allocations):
        node, entry = by_name.get(allocation.node), entries.get(allocation.job)
        if node is None or entry is None:
            continue  # found by check
        given = entry.resources if allocation.resources is None else allocation.resources
        amounts = read_amounts(given, f"$.allocations[{place}].resources", problems)
        amounts = node.capacity if entry.exclusive else amounts
        add(used.setdefault(node.name, {}), amounts)
        if job := jobs.get(allocation.job):
            since = document.now if allocation.started_at is None else allocation.started_at
            held.append(Held(job, amounts, since))
    stated = {entry.name for entry in document.nodes if entry.used is not None}
    return held, [
        node if node.name in stated else msgspec.structs.replace(node, used=used.get(node.name, {})) for node in nodes
    ]


def totals(nodes: Sequence[Node], forest: Forest) -> list[Resources]:
    """By partition the sum of its nodes that are up or draining: the denominators of shares."""
    sums: dict[str, Resources] = {name: {} for name in forest.names}
    for node in nodes:
        if node.state in COUNTED and node.partition in sums:
            add(sums[node.partition], node.capacity)
    return list(sums.values())


def counted_nodes(nodes: Sequence[Node], forest: Forest) -> list[int]:
    """By partition how many of its nodes are up or draining."""
    return [sum(node.partition == name and node.state in COUNTED for node in nodes) for name in forest.names]


def read_applications(
    document: Document, forest: Forest, jobs: Sequence[Job], problems: list[Problem]
) -> tuple[list[Application], dict[tuple[int, Id], int]]:
    """The listed applications, then those that only jobs name; with their places by (queue, id)."""
    applications: list[Application] = []
    places: dict[tuple[int, Id], int] = {}
    created = _first_submissions(jobs, document.now)
    for place, entry in enumerate(document.applications):
        queue = _queue_of(entry, place, forest, problems)
        if (queue, entry.id) in places:
            message = f"'{entry.id}' is there twice in its queue; remove one"
            problems.append(Problem(path=f"$.applications[{place}].id", message=message))
        places[queue, entry.id] = len(applications)
        applications.append(_application(entry, place, queue, created.get((queue, entry.id), document.now), problems))
    for (queue, id_), at in created.items():
        if (queue, id_) not in places:
            places[queue, id_] = len(applications)
            applications.append(Application(id_, queue, at, "running", None, None))
    return applications, places


def _first_submissions(jobs: Sequence[Job], now: float) -> dict[tuple[int, Id], float]:
    first: dict[tuple[int, Id], float] = {}
    for job in jobs:
        if job.entry.application is not None:
            key = (job.queue, job.entry.application)
            first[key] = min(submitted_at(job.entry, now), first.get(key, float("inf")))
    return first


def submitted_at(entry: JobEntry, now: float) -> float:
    """When a job was submitted: now, unless it says."""
    return now if entry.submitted_at is None else entry.submitted_at


def _queue_of(entry: ApplicationEntry, place: int, forest: Forest, problems: list[Problem]) -> int:
    queue = forest.find(entry.queue or DEFAULT_QUEUE)
    if queue is not None and queue.is_leaf:
        return forest.id_of(queue)
    message = f"'{entry.queue or DEFAULT_QUEUE}' is no leaf queue; name one that queues has"
    problems.append(Problem(path=f"$.applications[{place}].queue", message=message))
    return -1


def _application(
    entry: ApplicationEntry, place: int, queue: int, created_at: float, problems: list[Problem]
) -> Application:
    path, state = f"$.applications[{place}]", entry.state.lower()
    if state not in APPLICATION_STATES:
        known = ", ".join(sorted(APPLICATION_STATES))
        problems.append(Problem(path=f"{path}.state", message=f"unknown state '{entry.state}'; known: {known}"))
    return Application(
        entry.id,
        queue,
        created_at if entry.created_at is None else entry.created_at,
        state,
        None if entry.used is None else read_amounts(entry.used, f"{path}.used", problems),
        None if entry.pending is None else read_amounts(entry.pending, f"{path}.pending", problems),
    )


def read_used(document: Document, forest: Forest, problems: list[Problem]) -> dict[int, Resources]:
    """What queues of the first partition use, as stated outright."""
    used: dict[int, Resources] = {}
    for path, amounts in document.used.items():
        queue = forest.find(path, forest.names[:1])
        if queue is None:
            problems.append(Problem(path=f"$.used.{path}", message=f"unknown queue '{path}'; correct the path"))
            continue
        used[forest.id_of(queue)] = read_amounts(amounts, f"$.used.{path}", problems)
    return used


def with_stated(
    of_leaves: Mapping[int, Resources], stated: Mapping[int, Resources], parents: Mapping[int, int | None]
) -> dict[int, Resources]:
    """What each queue uses beside its children, such that every queue sums up to what is stated of it.

    A parent whose statement is less than its children's has a negative rest. ``parents`` lists every queue, parents
    before children.
    """
    own: dict[int, Resources] = {queue: dict(amounts) for queue, amounts in of_leaves.items()}
    sums: dict[int, Resources] = {queue: dict(own.get(queue, {})) for queue in parents}
    for queue in reversed(list(parents)):
        if queue in stated:
            rest = {kind: -amount for kind, amount in sums[queue].items()}
            add(rest, stated[queue])
            add(own.setdefault(queue, {}), rest)
            sums[queue] = dict(stated[queue])
        parent = parents[queue]
        if parent is not None:
            add(sums[parent], sums[queue])
    return own
