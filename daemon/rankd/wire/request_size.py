"""The size limits of requests: every list, mapping and text of every request has its limit here.

:mod:`rankd.core.admission` limits the contents of submissions and registrations; :data:`ELSEWHERE` lists those fields.
Without limits, one request could keep the intake busy for seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeVar

import msgspec

from rankd.core.admission.limit import (
    LOOKED_UP_TEXTS,
    MAX_COMMAND_WORDS,
    MAX_DEPENDENCIES,
    MAX_KIND_NAME,
    MAX_KINDS,
    MAX_NAME,
    OWN_TEXTS,
    TextLimit,
    check_count,
    check_length,
)
from rankd.core.admission.node_check import MAX_DEVICE_ID, MAX_RUNNING
from rankd.core.admission.node_check import MAX_NAME as MAX_NODE_NAME
from rankd.core.errors import Refused
from rankd.core.model.access import AccessList
from rankd.core.model.device import ListedDevice
from rankd.core.model.device_report import LONGEST_NOTE, MOST_NOTES, MOST_USES, DeviceNote, DeviceUse
from rankd.core.model.job import Dependency, JobRequest
from rankd.core.model.notification import Notify
from rankd.core.model.priority_class import PriorityClass
from rankd.core.model.report import Report
from rankd.core.session.step import StepEnd
from rankd.wire.answer import ClassName, ErrorBody
from rankd.wire.dead_letter import DeadLetterFilter, DeadLetterSelection
from rankd.wire.delivery import MOST_CARRIED_OUT, ReportMessage, Take
from rankd.wire.device import DeviceReport, DeviceSelection
from rankd.wire.enrolment import Redeem, Renew
from rankd.wire.job_selection import JobCancel, JobFilter, JobRetry, JobSelection, JobSignal
from rankd.wire.job_update import JobUpdate
from rankd.wire.node import LONGEST_CONFINEMENT, LONGEST_UNABLE, Heartbeat, NodeRegistration, NodeSelection
from rankd.wire.page import EventsRequest, HistoryRequest, JobShow, TableFilter
from rankd.wire.report import ReportPartRequest, ReportRequest
from rankd.wire.schema_record import SchemaRequest
from rankd.wire.session import JobAttach, JobLog, Opened, Step
from rankd.wire.submission import JobBatch, Jobs
from rankd.wire.web import PageLook

T = TypeVar("T")

MOST_IDS = 100_000
MOST_NODES = 100_000
MOST_FILTER_NAMES = 1_000
MOST_LETTERS = 1_000
"""A retry submits the letters one after the other."""
MOST_REPORTS = 1_000
"""The reports of a message share a transaction."""

_ADVICE = "ask for some at a time"
_NODE = TextLimit(MAX_NODE_NAME)
_NAME = TextLimit(1_024)
_AMOUNT = TextLimit(64)
_KEY = TextLimit(256, advice="use a shorter secret")
_CAUSE = TextLimit(LONGEST_UNABLE, advice="give the first part of it")
_INSTANCE = TextLimit(64)
_TOKEN_PART = TextLimit(64)
_DEVICE = TextLimit(MAX_DEVICE_ID)


class Parts(NamedTuple):
    """The most entries of a list or mapping, and the longest text of each.

    ``entries`` is the word for them in messages. ``keys`` limits the keys of a mapping.
    """

    most: int
    entries: str
    text: TextLimit | None = None
    keys: TextLimit | None = None
    advice: str = _ADVICE


_OF_JOBS: Mapping[str, TextLimit] = {**OWN_TEXTS, **LOOKED_UP_TEXTS}
_JOB_NAME = TextLimit(128 * 2**10, advice="name some tasks at a time")
_IDS = Parts(MOST_IDS, "ids")
_JOB_NAMES = Parts(MOST_IDS, "ids", _JOB_NAME)
_FILTER_NAMES = Parts(MOST_FILTER_NAMES, "names", TextLimit(1_024))
_NODES = Parts(MOST_NODES, "nodes", _NODE)

LIMITS: Final[Mapping[type[msgspec.Struct], Mapping[str, TextLimit | Parts]]] = {
    JobFilter: {
        "id": _JOB_NAME,
        "ids": _JOB_NAMES,
        **dict.fromkeys(("users", "accounts", "queues", "partitions", "states", "names", "qos"), _FILTER_NAMES),
    },
    JobSelection: {"id": _JOB_NAME, "ids": _JOB_NAMES},
    JobCancel: {"id": _JOB_NAME, "ids": _JOB_NAMES},
    JobSignal: {"id": _JOB_NAME, "ids": _JOB_NAMES, "signal": TextLimit(64)},
    JobRetry: {"id": _JOB_NAME, "key": OWN_TEXTS["key"]},
    JobShow: {"id": _JOB_NAME},
    Opened: {"user": _NAME, "session": _TOKEN_PART},
    ErrorBody: {"code": _TOKEN_PART, "message": TextLimit(4_096), "field": _TOKEN_PART},
    JobAttach: {
        "id": _JOB_NAME,
        "node": _NODE,
        "session": _TOKEN_PART,
        "offsets": Parts(8, "streams", keys=_TOKEN_PART),
    },
    Step: {
        "command": Parts(
            MAX_COMMAND_WORDS, "words", TextLimit(64 * 2**10, advice="use a script"), advice="use a script"
        ),
        "env": Parts(1_000, "variables", TextLimit(64 * 2**10), TextLimit(1_024), "set fewer"),
        "cwd": TextLimit(4_096, advice="use a shorter path"),
    },
    JobLog: {"id": _JOB_NAME, "node": _NODE, "session": _TOKEN_PART},
    HistoryRequest: {"id": _JOB_NAME},
    Redeem: {"secret": _TOKEN_PART, "key": _TOKEN_PART},
    Renew: {"key": _TOKEN_PART},
    EventsRequest: {"users": _FILTER_NAMES, "jobs": _JOB_NAMES},
    JobUpdate: {
        **{field: limit for field, limit in _OF_JOBS.items() if field in JobUpdate.__struct_fields__},
        "resources": Parts(MAX_KINDS, "types", _AMOUNT, TextLimit(MAX_KIND_NAME), "ask for fewer"),
        "depends_on": Parts(MAX_DEPENDENCIES, "jobs", advice="wait for fewer"),
    },
    Dependency: {"job": TextLimit(MAX_NAME)},
    TableFilter: {"after": Parts(4, "names", TextLimit(1_024), advice="give what next says")},
    DeadLetterSelection: {"ids": Parts(MOST_LETTERS, "ids")},
    DeadLetterFilter: {"ids": _IDS, "users": _FILTER_NAMES},
    NodeSelection: {"node": _NODE, "nodes": _NODES, "reason": TextLimit(1_000)},
    ClassName: {"name": TextLimit(MAX_NAME)},
    AccessList: dict.fromkeys(("users", "groups"), _FILTER_NAMES),
    PriorityClass: {
        "name": TextLimit(MAX_NAME),
        "description": TextLimit(4_096),
        "preemption_policy": TextLimit(MAX_NAME),
    },
    ReportRequest: {
        "at": TextLimit(64),
        "weights": Parts(100, "factors", keys=TextLimit(64), advice="name fewer"),
        "classes": Parts(100, "classes", keys=TextLimit(MAX_NAME), advice="name fewer"),
        "qos": Parts(100, "QoS", keys=TextLimit(MAX_NAME), advice="name fewer"),
        "offsets": Parts(100, "queues", keys=TextLimit(1_024), advice="name fewer"),
        "submit": TextLimit(16 * 2**20, advice="try fewer jobs at a time"),
        "files": Parts(4, "files", TextLimit(16 * 2**20), TextLimit(64), "leave out those that do not change"),
    },
    ReportPartRequest: {"report": TextLimit(64)},
    PageLook: {"look": _TOKEN_PART, "given": Parts(50, "parameters", _NAME, _TOKEN_PART)},
    SchemaRequest: {"verb": TextLimit(64)},
    NodeRegistration: {"key": _KEY, "instance": _INSTANCE, "confinement": TextLimit(LONGEST_CONFINEMENT)},
    DeviceSelection: {"node": _NODE, "device": _DEVICE, "reason": TextLimit(LONGEST_NOTE)},
    DeviceNote: {"id": _DEVICE, **dict.fromkeys(("by", "reason", "fault"), TextLimit(LONGEST_NOTE))},
    DeviceUse: {"id": _DEVICE},
    DeviceReport: {
        "notes": Parts(MOST_NOTES, "devices", advice="report some at a time"),
        "uses": Parts(MOST_USES, "uses", advice="report some at a time"),
        "instance": _INSTANCE,
        "batch": _INSTANCE,
    },
    Heartbeat: {"nodes": _NODES, "key": _KEY, "instance": _INSTANCE, "unable": _CAUSE, "health": _CAUSE},
    Take: {
        "agent": _NODE,
        "known": Parts(MAX_RUNNING, "allocations", advice="report what has ended"),
        "carried_out": Parts(MOST_CARRIED_OUT, "orders", advice="name the others in the next request"),
        "instance": _INSTANCE,
    },
    ReportMessage: {
        "reports": Parts(MOST_REPORTS, "reports", advice="send some at a time"),
        "steps": Parts(MOST_REPORTS, "ends of steps", advice="send some at a time"),
        "instance": _INSTANCE,
    },
    StepEnd: {"cause": _TOKEN_PART},
}
"""A request also has the limits of its base classes."""

ELSEWHERE: Final[Mapping[type[msgspec.Struct], Sequence[str]]] = {
    JobBatch: ("jobs",),  # read_submission, decode_submission
    Jobs: ("jobs",),  # the same, as clients write it
    ListedDevice: ("model", "id", "path"),  # core.admission.node_check
    Notify: ("on", "to"),  # core.admission.notify_check
    JobRequest: JobRequest.__struct_fields__,  # core.admission.limit, amount and path_limit
    NodeRegistration: ("partition", "resources", "labels", "agent", "running", "devices"),  # core.admission.node_check
    Report: ("cause", "message", "stdout", "stderr", "drain"),  # core.change.report cuts them
}
"""Fields whose size other modules limit."""


@cache
def limits_of(kind: type) -> Mapping[str, TextLimit | Parts]:
    """The limits of a struct's fields, including inherited ones."""
    merged: dict[str, TextLimit | Parts] = {}
    for base in reversed(kind.__mro__):
        merged.update(LIMITS.get(base, {}))
    return merged


def check_request(request: T) -> T:
    """Check that every list, mapping and text of a request is within its limit; returns the request.

    Raises:
        Refused: ``too_many``, ``too_long``, with the field.
    """
    _check(request, "")
    return request


def _check(message: object, prefix: str) -> None:
    if not isinstance(message, msgspec.Struct):
        return
    limits = limits_of(type(message))
    for field in message.__struct_fields__:
        value = getattr(message, field)
        limit, path = limits.get(field), prefix + field
        if isinstance(value, msgspec.Struct):
            _check(value, f"{path}.")
        elif isinstance(limit, Parts):
            _check_parts(path, value, limit)
        elif isinstance(limit, TextLimit) and isinstance(value, str):
            check_length(path, value, limit)


def _check_parts(path: str, value: object, limit: Parts) -> None:
    if not isinstance(value, list | dict):
        return
    check_count(path, len(value), limit.most, limit.entries, limit.advice)
    if isinstance(value, dict):
        _check_texts("a name", path, value, limit.keys)
    entries = value.values() if isinstance(value, dict) else value
    kinds = set(map(type, entries))  # 2 ms for 100,000 numbers; a look at each of them would take 50
    if str in kinds:
        _check_texts("an entry", path, entries, limit.text)
    if any(issubclass(kind, msgspec.Struct) for kind in kinds):
        for place, entry in enumerate(entries):
            _check(entry, f"{path}[{place}].")


def _check_texts(what: str, path: str, texts: Iterable[object], limit: TextLimit | None) -> None:
    if limit is None:
        return
    longest = max((len(text) for text in texts if isinstance(text, str)), default=0)
    if longest > limit.most:
        message = f"{path} has {what} of {longest} characters, {limit.most} are allowed; {limit.advice}"
        raise Refused("too_long", message, path)
