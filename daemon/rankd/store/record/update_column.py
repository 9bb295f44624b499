"""The columns of a changed job in which the changed fields are stored."""

from __future__ import annotations

import json
from typing import cast

from sqlalchemy import Connection

from rankd.core.admission.admit import vcore_of
from rankd.core.admission.fit import shape_of
from rankd.core.admission.readmission import SHAPE_FIELDS
from rankd.core.change.job_change import Value
from rankd.core.change.job_update import Verdict
from rankd.core.model.job import AcceptedJob, name_of
from rankd.store.record.application import application_of
from rankd.store.record.catalog import Catalog
from rankd.store.record.dependency import stored_dependencies
from rankd.store.record.job import association_of
from rankd.store.record.made_queue import queue_of


class Ids:
    """Ids of queues, applications and associations in one transaction. Missing ones are made."""

    def __init__(self, connection: Connection, catalog: Catalog, now: float) -> None:
        self.catalog = catalog
        self._connection = connection
        self._now = now
        self._applications: dict[tuple[int, str | None], int | None] = {}

    def queue(self, accepted: AcceptedJob) -> int:
        """The id of the job's queue."""
        return queue_of(self._connection, accepted, self.catalog, self._now)

    def application(self, queue: int, name: str | None) -> int | None:
        """The id of an application of a queue; None for a job without one."""
        if (queue, name) not in self._applications:
            self._applications[queue, name] = application_of(self._connection, queue, name, self._now)
        return self._applications[queue, name]

    def association(self, accepted: AcceptedJob) -> int:
        """The id of the job's (account, user)."""
        return association_of(self._connection, accepted, self.catalog, self._now)


_SHAPE = SHAPE_FIELDS - {"queue"}
_PLACE = {"queue", "partition", "application"}
_CLASS = {"priority_class", "class_value", "preemption_policy"}
_PLAIN = ("urgency", "time_limit_s", "requeue", "begin_at", "cancel_if_unmet", "comment")


def columns_of(verdict: Verdict, ids: Ids) -> dict[str, Value]:
    """The columns of table ``jobs`` that change.

    Raises:
        Refused: as :func:`rankd.store.record.made_queue.queue_of`.
    """
    accepted, changed, request = verdict.accepted, verdict.changes.keys(), verdict.accepted.request
    columns: dict[str, Value] = {name: getattr(request, name) for name in _PLAIN if name in changed}
    if not changed <= {"fixed_priority", "array_limit"}:
        columns |= {"request": verdict.request, "request_id": None}
    if "array_limit" in changed:
        columns["array_limit"] = cast("int | None", verdict.changes["array_limit"][1])
    if "name" in changed:
        columns["name"] = name_of(request)
    if "depends_on" in changed:
        columns["depends_on"] = stored_dependencies(request.depends_on)
    if "qos" in changed:
        columns["qos_id"] = ids.catalog.qos[accepted.qos]
    if "account" in changed:
        columns["association_id"] = ids.association(accepted)
    if not _PLACE.isdisjoint(changed):
        queue = ids.queue(accepted)
        columns |= {"queue_id": queue, "application_id": ids.application(queue, request.application)}
    if not _CLASS.isdisjoint(changed):
        columns |= {name: getattr(accepted, name) for name in _CLASS}
    if not _SHAPE.isdisjoint(changed):
        columns |= _shape_columns(accepted)
    return columns | dict(verdict.eligibility)


def _shape_columns(accepted: AcceptedJob) -> dict[str, Value]:
    return {
        "nodes": accepted.nodes,
        "min_nodes": accepted.min_nodes,
        "vcore": vcore_of(accepted.resources),
        "resources": json.dumps(accepted.resources),
        "constraints": accepted.request.constraints,
        "exclusive": accepted.request.exclusive,
        "shape": shape_of(accepted).key(),
    }
