"""Requests about nodes, such as ``node.drain``, and about single devices, such as ``node.device_drain``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from rankd.bus.endpoint import Reply, UserHandler, Verb
from rankd.core.admission.offered import Offered
from rankd.core.admission.submitter import Submitter
from rankd.core.change.node_action import Decide, drain, resume
from rankd.core.errors import Refused
from rankd.core.model.device_record import StoredDevice
from rankd.services.runtime.clock import Clock
from rankd.store.engine.connection import Connection
from rankd.store.engine.group_commit import PART, GroupCommit
from rankd.store.record.device_note import listed_devices
from rankd.store.record.device_order import DeviceWish, drain_device, fail_device, resume_device
from rankd.store.record.node_action import NodeWish, act
from rankd.wire.codec import decode_strict
from rankd.wire.device import DeviceSelection
from rankd.wire.message import NodeFailed, NodeReply, NodeSelection

Order = Callable[[Connection, DeviceWish], None]

log = logging.getLogger("rankd.intake")

_ORDERS = {"device_drain": drain_device, "device_resume": resume_device, "device_fail": fail_device}
_STATUS = {"unknown_node": 404, "not_draining": 409}


def node_verbs(group: GroupCommit, offered: Offered, clock: Clock) -> list[Verb]:
    """The endpoints; each answers once the change is durable. ``offered`` learns what becomes of devices."""

    def handler(decide: Decide) -> UserHandler:
        async def handle(asker: Submitter, payload: bytes) -> Reply:
            selection = _read(payload)
            names = [selection.node] if selection.node is not None else list(dict.fromkeys(selection.nodes or ()))
            wish = NodeWish(nodes=names, actor=asker.user, reason=selection.reason, at=clock())
            return _answer(selection, await _in_parts(group, wish, decide))

        return handle

    decisions = {"node.drain": drain, "node.resume": resume, "node.undrain": resume}
    verbs = [Verb(name, handler(decide)) for name, decide in decisions.items()]
    return verbs + [
        Verb(f"node.{name}", _device_handler(order, group, offered, clock)) for name, order in _ORDERS.items()
    ]


def _device_handler(order: Order, group: GroupCommit, offered: Offered, clock: Clock) -> UserHandler:
    def ordered(connection: Connection, wish: DeviceWish) -> Sequence[StoredDevice]:
        order(connection, wish)
        return listed_devices(connection, wish.node)

    async def handle(asker: Submitter, payload: bytes) -> Reply:
        asked = decode_strict(payload, DeviceSelection)
        wish = DeviceWish(node=asked.node, device=asked.device, actor=asker.user, at=clock(), reason=asked.reason)
        offered.note(wish.node, await group.do(partial(ordered, wish=wish), client=asker.user))
        if order is fail_device:
            reason = f": {wish.reason}" if wish.reason else ""
            log.warning(
                "device %s of node %s has failed, says %s%s; see `rankd diag`",
                wish.device,
                wish.node,
                wish.actor,
                reason,
            )
        return NodeReply(done=[asked.node], failed=[])

    return handle


async def _in_parts(group: GroupCommit, wish: NodeWish, decide: Decide) -> NodeReply:
    """Change many nodes part by part, so that others can write in between."""
    done, failed = list[str](), list[NodeFailed]()
    for start in range(0, len(wish.nodes), PART):
        part = msgspec.structs.replace(wish, nodes=wish.nodes[start : start + PART])
        work = partial(act, wish=part, decide=decide)
        reply = await group.do(work, client=wish.actor, weight=len(part.nodes))
        done += reply.done
        failed += reply.failed
    return NodeReply(done=done, failed=failed)


def _read(payload: bytes) -> NodeSelection:
    selection = decode_strict(payload, NodeSelection)
    if selection.node is None and not selection.nodes:
        raise Refused("empty_selection", "name the nodes: node, or nodes", "nodes")
    return selection


def _answer(selection: NodeSelection, reply: NodeReply) -> NodeReply:
    """The reply. If a single node was named and failed, raises its error instead."""
    if selection.node is not None and reply.failed:
        failed = reply.failed[0]
        raise Refused(failed.code, failed.message, "node", _STATUS[failed.code])
    return reply
