"""What agents report about their devices: states and errors, and what jobs do with them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rankd.bus.endpoint import NodeHandler, Reply
from rankd.core.admission.offered import Offered
from rankd.core.errors import Refused
from rankd.core.model.device_record import StoredDevice
from rankd.core.model.device_report import check_uses
from rankd.core.model.node_holder import NODE_TAKEN
from rankd.core.model.service_setting import DeviceSettings
from rankd.services.intake.foreign_report import ForeignReports
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.record.device_note import listed_devices, note_devices
from rankd.store.record.device_use import add_uses
from rankd.store.record.idle_job import end_idle, idle_times
from rankd.store.record.node import of_instance
from rankd.wire.codec import decode_of_node
from rankd.wire.device import DeviceReport
from rankd.wire.message import ReportsTaken
from rankd.wire.subject import node_pattern

log = logging.getLogger("rankd.intake")

LEAST_S = 0.5
"""A node's reports must be this far apart. Agents gather changes for a second; others would flood the events."""


class DeviceReports:
    """Takes the reports of agents. A node can change what is known of its own devices only."""

    def __init__(
        self,
        settings: Callable[[], DeviceSettings],
        group: GroupCommit,
        foreign: ForeignReports,
        offered: Offered,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._group = group
        self._foreign = foreign
        self._offered = offered
        self._clock = clock
        self._taken_at: dict[str, float] = {}

    def verbs(self) -> dict[str, tuple[str, NodeHandler]]:
        """The subject that nodes send to, and its handler."""
        return {"node_device": (node_pattern("device"), self.take)}

    async def take(self, node: str, payload: bytes) -> Reply:
        """Record a report, with one commit."""
        report, now = decode_of_node(payload, DeviceReport), self._clock()
        check_uses(report.uses)
        if 0 <= now - self._taken_at.get(node, 0.0) < LEAST_S:
            message = f"reports about the devices of node '{node}' come more often than every {LEAST_S:g} s; wait"
            raise Refused("too_many_requests", message, "node", status=429)
        self._taken_at[node] = now

        broken, present = list[str](), list[StoredDevice]()

        def work(connection: Connection) -> list[int] | None:
            if not of_instance(connection, [node], report.instance):
                return None
            note_devices(connection, node, report.notes, now)
            present[:] = listed_devices(connection, node) if report.notes else ()
            broken[:] = [f"{note.id}: {note.fault}" for note in report.notes if note.fault]
            return self._add(connection, node, report, now)

        foreign = await self._group.do(work, client=f"node {node}")
        if foreign is None:
            text = f"another agent represents node '{node}' now; its devices are reported by that one"
            raise Refused(NODE_TAKEN, text, "instance", status=409)
        if present:
            self._offered.note(node, present)
        if broken:
            log.warning("devices of node %s have failed: %s; see `rankd diag`", node, ", ".join(broken))
        if foreign:
            self._foreign.note(node, foreign)
        return ReportsTaken(taken=len(report.notes) + len(report.uses))

    def _add(self, connection: Connection, node: str, report: DeviceReport, now: float) -> list[int]:
        """Add what jobs did, and end those that have done nothing for too long."""
        ids = sorted({use.allocation for use in report.uses})
        before = idle_times(connection, ids)
        foreign = add_uses(connection, node, report.uses, now, report.batch)
        if ended := end_idle(connection, before, ids, self._settings(), now):
            log.info("jobs that do not use their GPUs are ended: %s", ", ".join(map(str, ended)))
        return foreign
