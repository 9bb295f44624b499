"""Checks of a document that need several of its sections or entries. Every problem has its JSON path."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

from rankd.core.admission.node_check import check_devices
from rankd.core.errors import Problem, Refused
from rankd.core.evaluate.admission import sequence_numbers
from rankd.core.evaluate.document import Document, JobEntry
from rankd.core.model.device import is_device_kind
from rankd.core.model.index_set import parse
from rankd.core.model.job import SINGLETON, State
from rankd.core.model.setting import PrioritySettings
from rankd.core.placement.backfill_rule import useless_order

Range = tuple[float, float]

UNIT_RANGE: Range = (0.0, 1.0)
"""The range of factors that no plugin provides."""

LARGEST_PRIORITY = 2**53


def check(document: Document, ranges: Mapping[str, Range], provided: Collection[str]) -> list[Problem]:
    """All problems, section by section.

    Args:
        document: the decoded document.
        ranges: lowest and highest value of each installed factor that the document names.
        provided: the names in its weights that plugins provide.
    """
    settings = document.priority or PrioritySettings()
    return [
        *_weights(settings, document.jobs, provided),
        *_billing(settings),
        *_backfill(document),
        *_twice((row.name for row in document.qos or ()), "$.qos", "name"),
        *_association_priorities(document),
        *_twice((row.name for row in document.nodes), "$.nodes", "name"),
        *_twice((row.id for row in document.jobs), "$.jobs", "id"),
        *_sequences(document.jobs),
        *_dependencies(document.jobs),
        *_factor_values(document.jobs, ranges),
        *_allocations(document),
        *_devices(document),
        *_held_devices(document),
    ]


def _twice(names: Iterable[Hashable], path: str, field: str) -> Iterator[Problem]:
    seen: dict[Hashable, int] = {}
    for place, name in enumerate(names):
        first = seen.setdefault(name, place)
        if first != place:
            message = f"'{name}' is listed twice, first at {path}[{first}]; remove one"
            yield Problem(path=f"{path}[{place}].{field}", message=message)


def _sequences(jobs: Collection[JobEntry]) -> Iterator[Problem]:
    last = 0
    for place, number in enumerate(sequence_numbers(jobs)):
        if number <= last:
            message = f"{number} is not larger than {last}, the number of the job before; sort jobs by sequence"
            yield Problem(path=f"$.jobs[{place}].sequence", message=message)
        last = number


def _dependencies(jobs: Iterable[JobEntry]) -> Iterator[Problem]:
    for place, job in enumerate(jobs):
        for at, one in enumerate(job.depends_on):
            if one.job is None and one.type != SINGLETON:
                path = f"$.jobs[{place}].depends_on[{at}].job"
                yield Problem(path=path, message=f"{one.type} names no job; give its id")
        if job.eligible_tasks:
            try:
                parse(job.eligible_tasks)
            except Refused as error:
                yield Problem(path=f"$.jobs[{place}].eligible_tasks", message=error.message)


def _weights(settings: PrioritySettings, jobs: Collection[JobEntry], provided: Collection[str]) -> Iterator[Problem]:
    pending = [job for job in jobs if job.state is State.PENDING]
    for name in settings.weights:
        if name in provided:
            continue
        lacking = next((job.id for job in pending if name not in job.factors), None)
        if lacking is not None or not pending:
            given = f"job '{lacking}' gives no value for it" if pending else "no job gives a value for it"
            message = f"unknown factor '{name}': no plugin provides it, and {given} in factors; correct the name"
            yield Problem(path=f"$.priority.weights.{name}", message=message)
    yield from without_weights(settings)


def without_weights(settings: PrioritySettings) -> Iterator[Problem]:
    """The problem of settings whose weights are all 0."""
    if settings.policy == "multifactor" and not any(settings.weights.values()):
        message = 'all weights are 0, so all jobs would rank the same; set one, or set policy to "class"'
        yield Problem(path="$.priority.weights", message=message)


def _billing(settings: PrioritySettings) -> Iterator[Problem]:
    for kind, cost in settings.fairshare.billing.items():
        if cost < 0:
            path = f"$.priority.fairshare.billing.{kind}"
            yield Problem(path=path, message=f"{cost} is not a valid cost; write a number of at least 0")


def _backfill(document: Document) -> Iterator[Problem]:
    message = None if document.scheduling is None else useless_order(document.scheduling)
    if message is not None:
        yield Problem(path="$.scheduling.backfill_order", message=message)


def _association_priorities(document: Document) -> Iterator[Problem]:
    for place, row in enumerate(document.associations or ()):
        if abs(row.priority) > LARGEST_PRIORITY:
            path = f"$.associations[{place}].priority"
            yield Problem(path=path, message=f"{row.priority} is outside -2^53 to 2^53; write a smaller number")


def _factor_values(jobs: Iterable[JobEntry], ranges: Mapping[str, Range]) -> Iterator[Problem]:
    for place, job in enumerate(jobs):
        for name, value in job.factors.items():
            lowest, highest = ranges.get(name, UNIT_RANGE)
            if not lowest <= value <= highest:
                message = f"{value} is outside [{lowest}, {highest}], the range of '{name}'"
                yield Problem(path=f"$.jobs[{place}].factors.{name}", message=message)


def _allocations(document: Document) -> Iterator[Problem]:
    jobs, nodes = {job.id for job in document.jobs}, {node.name for node in document.nodes}
    for place, allocation in enumerate(document.allocations):
        if allocation.job not in jobs:
            yield _unknown(place, "job", allocation.job)
        if allocation.node not in nodes:
            yield _unknown(place, "node", allocation.node)


def _devices(document: Document) -> Iterator[Problem]:
    """What is wrong with the devices of nodes."""
    for place, node in enumerate(document.nodes):
        try:
            check_devices(node.devices)
        except Refused as refusal:
            yield Problem(path=f"$.nodes[{place}].devices", message=refusal.message)


def _held_devices(document: Document) -> Iterator[Problem]:
    """On nodes that list devices, allocations with GPUs must name theirs, and each device has one holder only."""
    nodes, jobs = {node.name: node for node in document.nodes}, {job.id: job for job in document.jobs}
    seen: dict[tuple[str, str], int] = {}
    for place, allocation in enumerate(document.allocations):
        path, node, job = f"$.allocations[{place}].devices", nodes.get(allocation.node), jobs.get(allocation.job)
        for other in allocation.devices.keys() - {allocation.node}:
            yield Problem(path=path, message=f"'{other}' is not its node; give the devices of '{allocation.node}'")
        held = allocation.devices.get(allocation.node, [])
        if node is None or job is None:
            continue
        given = job.resources if allocation.resources is None else allocation.resources
        uses = any(is_device_kind(kind) and amount not in (0, "0") for kind, amount in given.items())
        if node.devices and uses and not job.exclusive and not held:
            yield Problem(path=path, message=f"node '{node.name}' lists devices; name those that the job holds")
        if held and not node.devices:
            yield Problem(path=path, message=f"node '{node.name}' lists no devices; list them, or leave these out")
        for id_ in held:
            first = seen.setdefault((allocation.node, id_), place)
            if first != place or held.count(id_) > 1:
                yield Problem(path=path, message=f"the device '{id_}' is also held by $.allocations[{first}]")


def _unknown(place: int, what: str, name: Hashable) -> Problem:
    message = f"unknown {what} '{name}'; list it in {what}s, or remove the allocation"
    return Problem(path=f"$.allocations[{place}].{what}", message=message)
