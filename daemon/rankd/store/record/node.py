"""Nodes: registration, heartbeats, silence.

Uses SQLAlchemy Core, although every agent's heartbeat runs this: one of 100 nodes among 2,000 takes 0.34 ms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import and_, bindparam, insert, or_, select, update

from rankd.core.admission.node_check import node_capacity
from rankd.core.model.device import in_order
from rankd.core.model.node import Node, NodeState
from rankd.core.model.node_holder import Agent, Holder
from rankd.core.model.quantity import Resources, add_amounts
from rankd.store.engine.connection import Connection
from rankd.store.engine.listed import listed, values_of
from rankd.store.engine.upsert import upsert
from rankd.store.engine.word import TEXTS
from rankd.store.record.all_nodes import all_nodes
from rankd.store.record.allocation_device import held_devices, models_by_node, used_on
from rankd.store.record.device_fault import noted_at_registration
from rankd.store.schema.table import allocation_nodes, allocations, jobs, node_events, nodes
from rankd.wire.message import NodeRegistration

_OF = nodes.c
_NAMED = _OF.name.in_(values_of("names", TEXTS))
_HEARD = update(nodes).where(_NAMED).values(heartbeat_at=bindparam("now"))
_FOREIGN = select(_OF.name).where(_NAMED, _OF.instance != bindparam("instance"))
_KNOWN = select(_OF.name).where(_NAMED, _OF.state.in_([NodeState.UP, NodeState.DRAINING]))
_OPEN = select(allocations.c.id).where(allocations.c.ended_at.is_(None))
_OPEN_PARTS = select(allocation_nodes.c.node).where(
    allocation_nodes.c.allocation_id.in_(_OPEN), allocation_nodes.c.ended_at.is_(None)
)
"""The nodes on which parts of open allocations have not ended. Not a join: SQLite would read the parts of all times."""
_USED = (
    select(
        allocations.c.id,
        allocations.c.nodes,
        allocations.c.resources,
        jobs.c.exclusive,
        jobs.c.queue_id,
        jobs.c.application_id,
        allocations.c.devices.is_not(None),
    )
    .join_from(allocations, jobs, jobs.c.id == allocations.c.job_id)
    .where(allocations.c.ended_at.is_(None))
)
"""What open allocations use, one row each."""


def holder_of(connection: Connection, name: str) -> Holder | None:
    """The agent that represents the node; None if the node is not known."""
    query = select(_OF.agent, _OF.instance, _OF.state, _OF.heartbeat_at).where(_OF.name == name)
    row = connection.execute(query).first()
    if row is None:
        return None
    agent = Agent(name=row.agent, instance=row.instance or "")
    return Holder(agent=agent, state=NodeState(row.state), heard_at=row.heartbeat_at)


def of_instance(connection: Connection, names: Sequence[str], instance: str) -> list[str]:
    """Those of these nodes that an agent with this instance may represent. An empty instance means it is unknown."""
    if not instance:
        return list(names)
    foreign = set(connection.execute(_FOREIGN, {"names": names, "instance": instance}).scalars())
    return [name for name in names if name not in foreign]


def register_node(connection: Connection, name: str, registration: NodeRegistration, now: float) -> None:
    """Add a node, or store its new data. Records an event if something has changed.

    Raises:
        Refused: as :func:`rankd.core.admission.node_check.node_capacity`.
    """
    known = noted_at_registration(connection, name, registration.devices)
    capacity = json.dumps(node_capacity(registration.resources, known), sort_keys=True)
    devices = msgspec.json.encode(in_order(known)).decode()
    labels = json.dumps(registration.labels, sort_keys=True)
    query = select(
        _OF.partition, _OF.state, _OF.capacity, _OF.labels, _OF.drained_by, _OF.devices, _OF.confinement
    ).where(_OF.name == name)
    present = connection.execute(query).first()
    state = NodeState.DRAINING if present and present.drained_by else NodeState.UP
    wanted = {
        "partition": registration.partition,
        "state": state.value,
        "capacity": capacity,
        "labels": labels,
        "devices": devices,
        "confinement": registration.confinement,
    }
    holder = {"agent": registration.agent, "instance": registration.instance or None}
    row = {"name": name, **wanted, **holder, "registered_at": now, "heartbeat_at": now}
    upsert(connection, nodes, ["name"], [row])
    if present is None or any(getattr(present, field) != value for field, value in wanted.items()):
        record_node_event(connection, name, "joined" if present is None else "changed", now, registration.agent)


def strays(connection: Connection, node: str, running: Sequence[int]) -> list[int]:
    """Allocations that run on a node that was declared lost: the node must end them, as other nodes may run them."""
    wanted, parts = listed("running"), allocation_nodes.c
    query = select(parts.allocation_id).join_from(
        wanted, allocation_nodes, and_(parts.allocation_id == wanted.c.value, parts.node == node)
    )
    rows = connection.execute(query.where(parts.ended_at.is_not(None)), {"running": running})
    return list(rows.scalars())


def record_node_event(
    connection: Connection, node: str, event: str, now: float, actor: str, reason: str | None = None
) -> None:
    """Record a change of a node, which triggers the scheduler."""
    row = {"node": node, "event": event, "at": now, "actor": actor, "reason": reason}
    connection.execute(insert(node_events).values(row))


def is_noted(connection: Connection, node: str, event: str, reason: str) -> bool:
    """Whether the node's newest event of this kind has this reason."""
    of = node_events.c
    query = select(of.reason).where(of.node == node, of.event == event).order_by(of.id.desc()).limit(1)
    return connection.execute(query).scalar() == reason


def set_state(connection: Connection, name: str, state: NodeState, now: float, actor: str) -> None:
    """Set a node's state, with an event. Does nothing if the node already has that state."""
    other = update(nodes).where(_OF.name == name, _OF.state != state)
    changed = connection.execute(other.values(state=state))
    if changed.rowcount:
        record_node_event(connection, name, state, now, actor)


def take_down(connection: Connection, names: Sequence[str], now: float) -> None:
    """Set nodes down because their agent stops. They take no jobs until they register again; their jobs may go on."""
    connection.execute(_HEARD, {"names": names, "now": now})
    for name in names:
        set_state(connection, name, NodeState.DOWN, now, name)


def silent_nodes(connection: Connection, now: float, limit_s: float) -> list[str]:
    """Nodes in use without a heartbeat for ``limit_s``, or with a future one because the clock was set back.

    A node whose agent has stopped is in use while it has jobs: they continue, and another agent is expected for them.
    """
    is_used = or_(
        _OF.state.in_([NodeState.UP, NodeState.DRAINING]),
        and_(_OF.state == NodeState.DOWN, _OF.name.in_(_OPEN_PARTS)),
    )
    is_silent = or_(_OF.heartbeat_at < now - limit_s, _OF.heartbeat_at > now + limit_s)
    return list(connection.execute(select(_OF.name).where(is_used, is_silent)).scalars())


def open_allocations_of(connection: Connection, node: str) -> list[tuple[int, int]]:
    """(allocation, job) of allocations whose part on this node has not ended."""
    own = select(allocation_nodes.c.allocation_id).where(
        allocation_nodes.c.allocation_id.in_(_OPEN),
        allocation_nodes.c.node == node,
        allocation_nodes.c.ended_at.is_(None),
    )
    query = select(allocations.c.id, allocations.c.job_id).where(allocations.c.id.in_(own)).order_by(allocations.c.id)
    return [(allocation, job) for allocation, job in connection.execute(query)]


def note_heartbeat(connection: Connection, names: Sequence[str], now: float) -> list[str]:
    """Record a heartbeat; returns the names of unknown nodes, whose agent has to register them again."""
    connection.execute(_HEARD, {"names": names, "now": now})
    known = set(connection.execute(_KNOWN, {"names": names}).scalars())
    return [name for name in names if name not in known]


class InUse(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of open allocations: by node, and by their jobs' queue and application.

    An exclusive job uses all resources of its nodes. Devices count as ``gpu`` and by their models.
    """

    by_node: Mapping[str, Resources]
    by_queue: Mapping[int, Resources]
    by_application: Mapping[int, Resources]


def read_nodes(connection: Connection) -> tuple[list[Node], InUse]:
    """All nodes by name with their used resources, and the resources that queues use."""
    known = all_nodes(connection.connection)
    use = _in_use(connection, {node.name: node.capacity for node in known})
    return [msgspec.structs.replace(node, used=use.by_node.get(node.name, {})) for node in known], use


def _in_use(connection: Connection, capacities: Mapping[str, Resources]) -> InUse:
    by_node: dict[str, Resources] = {}
    by_queue: dict[int, Resources] = {}
    by_application: dict[int, Resources] = {}
    held = held_devices(connection)
    for id_, names, resources, exclusive, queue, application, has_devices in connection.execute(_USED):
        amounts = json.loads(resources)
        models = models_by_node(held.get(id_, ())) if has_devices else {}
        for name in json.loads(names):
            taken = used_on(capacities.get(name, {}) if exclusive else amounts, models.get(name))
            add_amounts(by_node.setdefault(name, {}), taken)
            add_amounts(by_queue.setdefault(queue, {}), taken)
            if application is not None:
                add_amounts(by_application.setdefault(application, {}), taken)
    return InUse(by_node=by_node, by_queue=by_queue, by_application=by_application)
