"""Reads ``config/queues.yaml``: Apache YuniKorn's own format. The file is accepted as a whole or not at all.

There are three steps: drafts of the written text (``queue_draft``), the rules between them (``queue_rule``,
``limit_rule``, ``placement_rule``), and, if there is no error, the frozen partitions. Each step notes its findings.
Errors are raised together at the end; warnings come with the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rankd.config.limit_rule import check_limit_rules
from rankd.config.placement_rule import check_placement_rules
from rankd.config.queue_draft import PartitionDraft, QueueDraft, read_drafts
from rankd.config.queue_rule import check_queue_rules
from rankd.config.yaml_reader import FilePlace, Findings, parse, place_of
from rankd.core.errors import ConfigurationError, Problem
from rankd.core.model.queue import ChildTemplate, Limit, Partition, Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.config.queue_draft import LimitDraft


class QueuesRead(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted file, and the warnings about it."""

    partitions: tuple[Partition, ...] = ()
    warnings: tuple[Problem, ...] = ()


class Remark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error or a warning as ``rankd config check`` prints it; only warnings have a ``code``."""

    path: str
    line: int
    message: str
    code: str = ""


class QueuesChecked(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``rankd config check`` for one file."""

    valid: bool
    errors: tuple[Remark, ...]
    warnings: tuple[Remark, ...]


def read_queues(text: str, file: str = "queues.yaml") -> QueuesRead:
    """The partitions of a file; an empty file has none.

    Raises:
        ConfigurationError: with all errors of the file, by line.
    """
    findings = Findings(file)
    return _read(parse(text, findings), findings)


def read_queue_document(document: object, path: str = "queues") -> QueuesRead:
    """As :func:`read_queues`, for a document that is already decoded, such as evaluate's ``queues``.

    Raises:
        ConfigurationError: as :func:`read_queues`, without lines; paths begin with ``path``.
    """
    findings = Findings()
    return _read(place_of(document, findings, path), findings)


def check_queues(text: str) -> QueuesChecked:
    """The errors and warnings of a file; never raises."""
    findings = Findings()
    try:
        _read(parse(text, findings), findings)
    except ConfigurationError as error:
        errors = [Remark(path=found.path, line=found.line, message=found.message) for found in error.problems]
        return QueuesChecked(valid=False, errors=tuple(errors), warnings=_remarks(findings.warnings))
    return QueuesChecked(valid=True, errors=(), warnings=_remarks(findings.warnings))


def _remarks(cautions: Sequence[Problem]) -> tuple[Remark, ...]:
    return tuple(Remark(path=found.path, line=found.line, message=found.message, code=found.code) for found in cautions)


def _read(document: FilePlace, findings: Findings) -> QueuesRead:
    drafts = read_drafts(document)
    for draft in drafts:
        check_queue_rules(draft.root)
        check_limit_rules(draft)
        check_placement_rules(draft)
    findings.raise_errors()
    return QueuesRead(
        partitions=tuple(_partition(draft) for draft in drafts),
        warnings=tuple(sorted(findings.warnings, key=lambda found: found.line)),
    )


def _partition(draft: PartitionDraft) -> Partition:
    root = _queue(draft.root, "", inherited=True, template=None)
    limits = _limits(draft.limits)
    return Partition(
        name=draft.name,
        # the partition's limits are those of root: if both are written, they are the same
        root=msgspec.structs.replace(root, limits=root.limits or limits),
        nodesort=draft.nodesort,
        limits=limits,
    )


def _queue(draft: QueueDraft, above: str, *, inherited: bool, template: ChildTemplate | None) -> Queue:
    """The queue and all queues below it, with inherited priority sorting and child templates."""
    path = f"{above}.{draft.name}" if above else draft.name
    given = draft.properties.sort_priority
    enabled = inherited if given is None else given
    handed_down = draft.template or template
    queues = (_queue(child, path, inherited=enabled, template=handed_down) for child in draft.queues)
    return Queue(
        name=draft.name,
        path=path,
        parent=draft.parent,
        guaranteed=draft.guaranteed,
        max=draft.max,
        maxapplications=draft.maxapplications,
        submitacl=draft.fields["submitacl"].text(),
        adminacl=draft.fields["adminacl"].text(),
        properties=msgspec.structs.replace(draft.properties.values, sort_priority=enabled),
        child_template=handed_down if draft.parent else None,
        limits=_limits(draft.limits),
        queues=tuple(queues),
    )


def _limits(drafts: Sequence[LimitDraft]) -> tuple[Limit, ...]:
    return tuple(draft.limit for draft in drafts)
