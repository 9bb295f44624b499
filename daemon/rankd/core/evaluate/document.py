"""The input of ``rankd evaluate``, and its decoding with every error in it, each with its JSON path.

Decoding is one step. Only if it fails, the document is searched again for all errors. Checks that need several sections
are in :mod:`rankd.core.evaluate.check`.
"""

from __future__ import annotations

import json
from typing import Annotated, Literal, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from rankd.core.errors import ConfigurationError, Problem
from rankd.core.mismatch import mismatches, not_finite, sole, takes_null
from rankd.core.model.access import AccessLists
from rankd.core.model.association import Association
from rankd.core.model.device import Device
from rankd.core.model.index_set import LARGEST_INDEX
from rankd.core.model.job import JobRequest, State
from rankd.core.model.node import NodeState
from rankd.core.model.quantity import Amount
from rankd.core.model.setting import PrioritySettings, Qos, SchedulingSettings

Id = int | str
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Amounts = dict[str, Amount]
UnknownAssociation = Literal["refuse", "default", "zero"]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections: an unknown key (a typo) is an error."""


class DeviceEntry(Device, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device of a node. ``state`` is ``ok`` if it is left out."""


class NodeEntry(_Section, frozen=True, kw_only=True):
    """A node. ``partition`` None means the first one. ``used`` None means the sum of its allocations.

    A node with ``devices`` offers these. What its ``capacity`` and ``used`` state of them does not count.
    """

    name: str
    partition: str | None = None
    capacity: Amounts = {}
    labels: dict[str, str] = {}
    state: NodeState = NodeState.UP
    used: Amounts | None = None
    devices: list[DeviceEntry] = []


class ApplicationEntry(_Section, frozen=True, kw_only=True):
    """An application.

    ``created_at`` None means the submission of its first job. ``used`` or ``pending`` None means the sum of its jobs.
    ``partition`` None means the first one that has its queue.
    """

    id: Id
    queue: str | None = None
    partition: str | None = None
    created_at: float | None = None
    state: str = "running"
    used: Amounts | None = None
    pending: Amounts | None = None


class JobEntry(JobRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job: its request, and its state.

    ``submitted_at`` None means now. ``eligible_at`` unset means since its submission, or since its begin time if that
    is later; null means not eligible. ``class_value``: the value of its class, if it was resolved before. ``factors``:
    values that replace those of the plugins. ``sequence`` None means one more than the job before. ``array_job`` and
    ``array_task``: of a task that has a record of its own, the id of its array and its index. ``array_limit``: of such
    a task, how many tasks of its array may run at once, if the array is not listed. ``eligible_tasks``: of an array
    with ``aftercorr``, the tasks whose counterparts have completed; None: those of the document. The fields from
    ``reason`` on belong to a job's record and have no effect.
    """

    id: Id
    command: list[str] = msgspec.field(default_factory=list)
    application: Id | None = None  # type: ignore[assignment]  # ids in documents may be numbers
    state: State = State.PENDING
    privileged: bool = False
    groups: list[str] = msgspec.field(default_factory=list)
    class_value: Int32 | None = None
    fixed_priority: Int32 | None = None
    submitted_at: float | None = None
    eligible_at: float | UnsetType | None = UNSET
    started_at: float | None = None
    factors: dict[str, float] = msgspec.field(default_factory=dict)
    sequence: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    array_job: Id | None = None
    array_task: Annotated[int, Meta(ge=0, le=LARGEST_INDEX)] | None = None
    array_limit: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    eligible_tasks: str | None = None
    reason: str | None = None
    ended_at: float | None = None
    exit_status: int | None = None
    signal: int | None = None
    nodelist: str | list[str] | None = None


class AllocationEntry(_Section, frozen=True, kw_only=True):
    """A job's allocation on one node.

    ``resources`` None means the amounts that the job asks for per node. ``started_at`` None means now. ``devices``: the
    ids of its devices on its node, by the name of the node.
    """

    job: Id
    node: str
    resources: Amounts | None = None
    started_at: float | None = None
    devices: dict[str, list[str]] = {}


class Document(_Section, frozen=True, kw_only=True):
    """The whole state at ``now``. A section that is None comes from the configuration, or has its default.

    ``ranked_at``: the instant for which priorities are computed, if that is not ``now``: a scheduling cycle uses the
    order of an earlier ranking.
    """

    now: float
    ranked_at: float | None = None
    priority: PrioritySettings | None = None
    scheduling: SchedulingSettings | None = None
    queues: Raw | UnsetType = UNSET
    priority_classes: list[Raw] | None = None
    qos: list[Qos] | None = None
    associations: list[Association] | None = None
    unknown_association: UnknownAssociation = "zero"
    access: AccessLists | None = None
    nodes: list[NodeEntry] = []
    applications: list[ApplicationEntry] = []
    jobs: list[JobEntry] = []
    allocations: list[AllocationEntry] = []
    used: dict[str, Amounts] = {}


_DECODER = msgspec.json.Decoder(Document)


def decode(data: bytes) -> Document:
    """Decode a document. Where null is not an allowed value, a null key counts as left out.

    Raises:
        ConfigurationError: with every problem; paths begin with ``$``.
    """
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        document = _without_nulls(data) if b"null" in data else None
        if document is None:
            raise ConfigurationError(_explain(data, error)) from None
        return document


def _without_nulls(data: bytes) -> Document | None:
    """The document without nulls that count as left out. None if it can't be decoded without them either."""
    try:
        return _DECODER.decode(msgspec.json.encode(_filled(msgspec.json.decode(data), Document)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _filled(value: object, kind: object) -> object:
    """The value without keys that are null, if the field is optional and null is not one of its values."""
    kind = sole(kind)
    if isinstance(value, dict) and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        idle = {name for name, field in fields.items() if not field.required and not takes_null(field.type)}
        return {
            key: _filled(item, fields[key].type) if key in fields else item
            for key, item in value.items()
            if item is not None or key not in idle
        }
    if isinstance(value, list) and get_origin(kind) is list:
        return [_filled(item, get_args(kind)[0]) for item in value]
    return value


def _explain(data: bytes, error: Exception) -> list[Problem]:
    try:
        value = json.loads(data)  # accepts NaN and 1e999, so that the errors can name their places
        found = [*not_finite(value, "$"), *mismatches(value, Document, "$")]
    except RecursionError:
        return [Problem(path="$", message="nested too deeply")]
    except ValueError as malformed:
        return [Problem(path="$", message=f"this is not JSON: {malformed}")]
    return found or [Problem(path="$", message=str(error))]
