"""What if classes, QoS or queues had other priorities: a document with a few values changed, and the lines for that.

Weights and whole configurations are in :mod:`rankd.core.evaluate.whatif` and :mod:`rankd.config.what_if_document`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from rankd.core.errors import Refused
from rankd.core.evaluate.document import Document, JobEntry
from rankd.core.evaluate.whatif import with_weights
from rankd.core.model.job import State

OFFSET = "priority.offset"
COMMANDS = "commands"


class Variation(msgspec.Struct, frozen=True, kw_only=True):
    """Other values: weights by factor, values by class, priorities by QoS, offsets by the path of a queue."""

    weights: dict[str, float] = {}
    classes: dict[str, int] = {}
    qos: dict[str, int] = {}
    queues: dict[str, int] = {}


def varied_by(document: Document, variation: Variation) -> Document:
    """The document with these values.

    Raises:
        Refused: ``unknown_priority_class``, ``unknown_qos``, ``unknown_queue``.
    """
    weighted = with_classes(with_weights(document, variation.weights), variation.classes)
    return with_offsets(with_qos(weighted, variation.qos), variation.queues)


def with_classes(document: Document, values: Mapping[str, int]) -> Document:
    """The document in which these classes have other values, and waiting jobs of these classes too.

    While rankd runs, a waiting job keeps the value with which it was accepted.

    Raises:
        Refused: ``unknown_priority_class``.
    """
    if not values:
        return document
    rows = [msgspec.json.decode(row) for row in document.priority_classes or ()]
    check_known(values, [row["name"] for row in rows], "priority class", "unknown_priority_class")
    changed = [Raw(msgspec.json.encode(row | {"value": values.get(row["name"], row["value"])})) for row in rows]
    jobs = [_with_class_value(job, values) for job in document.jobs]
    return msgspec.structs.replace(document, priority_classes=changed, jobs=jobs)


def _with_class_value(job: JobEntry, values: Mapping[str, int]) -> JobEntry:
    value = values.get(job.priority_class or "")
    if value is None or job.class_value is None or job.state is not State.PENDING:
        return job
    return msgspec.structs.replace(job, class_value=value)


def with_qos(document: Document, priorities: Mapping[str, int]) -> Document:
    """The document in which these QoS have other priorities.

    Raises:
        Refused: ``unknown_qos``.
    """
    if not priorities:
        return document
    present = document.qos or []
    check_known(priorities, [qos.name for qos in present], "QoS", "unknown_qos")
    changed = [msgspec.structs.replace(qos, priority=priorities.get(qos.name, qos.priority)) for qos in present]
    return msgspec.structs.replace(document, qos=changed)


def with_offsets(document: Document, offsets: Mapping[str, int]) -> Document:
    """The document in which these queues have other offsets, in each partition that has the queue.

    Raises:
        Refused: ``unknown_queue``.
    """
    if not offsets:
        return document
    tree = msgspec.json.decode(document.queues) if isinstance(document.queues, Raw) else {}
    wanted = {path.lower(): offset for path, offset in offsets.items()}
    check_known(wanted, sorted({path.lower() for path, _ in _queues(tree)}), "queue", "unknown_queue")
    for path, queue in _queues(tree):
        if path.lower() in wanted:
            queue["properties"] = (queue.get("properties") or {}) | {OFFSET: str(wanted[path.lower()])}
    return msgspec.structs.replace(document, queues=Raw(msgspec.json.encode(tree)))


def check_known(wanted: Mapping[str, int], known: Sequence[str], kind: str, code: str) -> None:
    """Check that all names are known. ``kind`` is the word for them.

    Raises:
        Refused: with this ``code``.
    """
    if unknown := sorted(set(wanted) - set(known)):
        message = f"there is no {kind} '{unknown[0][:80]}' that is configured; known: {', '.join(known[:20]) or 'none'}"
        raise Refused(code, message, code.removeprefix("unknown_"), status=404)


def _queues(tree: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and entry of each queue of a queues.yaml."""
    found = [("", queue) for partition in tree.get("partitions") or () for queue in partition.get("queues") or ()]
    while found:
        above, queue = found.pop()
        path = f"{above}.{queue['name']}" if above else str(queue["name"])
        yield path, queue
        found += [(path, child) for child in queue.get("queues") or ()]


def configuration_lines(variation: Variation) -> list[tuple[str, str]]:
    """File and lines of the configuration that would have the same effect; for classes, commands too."""
    parts = list[str]()
    if variation.weights:
        weights = "\n".join(f"{name} = {value:g}" for name, value in sorted(variation.weights.items()))
        parts.append(f"[priority.weights]\n{weights}")
    parts += [f'[[qos]]\nname = "{name}"\npriority = {value}' for name, value in sorted(variation.qos.items())]
    found = [("rankd.toml", "\n\n".join(parts))] if parts else []
    lines = [f"# {path}\n  properties:\n    {OFFSET}: {value:d}" for path, value in sorted(variation.queues.items())]
    found += [("queues.yaml", "\n".join(lines))] if lines else []
    if variation.classes:
        stated = "\n".join(f"# {name}\nvalue: {value:d}" for name, value in sorted(variation.classes.items()))
        found += [("priorityclasses.yaml", stated), (COMMANDS, "\n".join(_class_commands(variation.classes)))]
    return found


def _class_commands(values: Mapping[str, int]) -> Iterator[str]:
    """A class keeps its value as long as it exists, and a waiting job the value with which it was accepted."""
    for name, value in sorted(values.items()):
        yield f"rankd class delete --admin {shlex.quote(name)}"
        yield f"rankd class create --admin {shlex.quote(name)} --value {value:d}"
        yield f"rankd update --admin JOB --class {shlex.quote(name)}  # each job that waits"
