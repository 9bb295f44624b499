"""Nodes: registration, heartbeats, silence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import Connection

from rankd.core.admission.node_check import node_capacity
from rankd.core.model.node import Node, NodeState
from rankd.core.model.node_holder import Agent, Holder
from rankd.core.model.quantity import Resources, add_amounts
from rankd.store.record.all_nodes import all_nodes
from rankd.wire.message import NodeRegistration


def holder_of(connection: Connection, name: str) -> Holder | None:
    """The agent that represents the node; None if the node is not known."""
    row = connection.exec_driver_sql(
        "SELECT agent, coalesce(instance, ''), state, heartbeat_at FROM nodes WHERE name = ?", (name,)
    ).first()
    if row is None:
        return None
    agent, instance, state, heard_at = row
    return Holder(agent=Agent(name=agent, instance=instance), state=NodeState(state), heard_at=heard_at)


def of_instance(connection: Connection, nodes: Sequence[str], instance: str) -> list[str]:
    """Those of these nodes that an agent with this instance may represent; an empty instance is unknown."""
    if not instance:
        return list(nodes)
    rows = connection.exec_driver_sql(
        "SELECT value FROM json_each(?) WHERE value NOT IN (SELECT name FROM nodes WHERE instance <> ?)",
        (json.dumps(list(nodes)), instance),
    )
    return [row[0] for row in rows]


def register_node(connection: Connection, name: str, registration: NodeRegistration, now: float) -> None:
    """Add a node, or store its new data; record an event if anything about it changed.

    Raises:
        Refused: as :func:`rankd.core.admission.node_check.node_capacity`.
    """
    capacity = json.dumps(node_capacity(registration.resources), sort_keys=True)
    labels = json.dumps(registration.labels, sort_keys=True)
    present = connection.exec_driver_sql(
        "SELECT partition, state, capacity, labels, drained_by FROM nodes WHERE name = ?", (name,)
    ).first()
    state = NodeState.DRAINING.value if present and present[4] else NodeState.UP.value
    wanted = (registration.partition, state, capacity, labels)
    connection.exec_driver_sql(
        "INSERT INTO nodes (name, partition, state, capacity, labels, agent, instance, registered_at, heartbeat_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET partition = excluded.partition,"
        " state = excluded.state, capacity = excluded.capacity, labels = excluded.labels,"
        " agent = excluded.agent, instance = excluded.instance, registered_at = excluded.registered_at,"
        " heartbeat_at = excluded.heartbeat_at",
        (name, *wanted, registration.agent, registration.instance or None, now, now),
    )
    if present is None or tuple(present)[:4] != wanted:
        record_node_event(connection, name, "joined" if present is None else "changed", now, registration.agent)


def strays(connection: Connection, node: str, running: Sequence[int]) -> list[int]:
    """Allocations that run on a node that was given up, while other nodes may run them: they are to be ended there."""
    rows = connection.exec_driver_sql(
        "SELECT p.allocation_id FROM json_each(?) w JOIN allocation_nodes p ON p.allocation_id = w.value AND p.node = ?"
        " WHERE p.ended_at IS NOT NULL",
        (json.dumps(list(running)), node),
    )
    return [row[0] for row in rows]


def record_node_event(
    connection: Connection, node: str, event: str, now: float, actor: str, reason: str | None = None
) -> None:
    """Record a change of a node; it triggers the scheduler."""
    connection.exec_driver_sql(
        "INSERT INTO node_events (node, event, at, actor, reason) VALUES (?, ?, ?, ?, ?)",
        (node, event, now, actor, reason),
    )


def set_state(connection: Connection, name: str, state: NodeState, now: float, actor: str) -> None:
    """Set a node's state, with an event; a node that has the state already is left as it is."""
    changed = connection.exec_driver_sql(
        "UPDATE nodes SET state = ? WHERE name = ? AND state <> ?", (state, name, state)
    )
    if changed.rowcount:
        record_node_event(connection, name, state, now, actor)


def take_down(connection: Connection, nodes: Sequence[str], now: float) -> None:
    """Their agent stops: they take no jobs until they register again. Their jobs may go on without the agent."""
    connection.exec_driver_sql(
        "UPDATE nodes SET heartbeat_at = ? WHERE name IN (SELECT value FROM json_each(?))",
        (now, json.dumps(list(nodes))),
    )
    for name in nodes:
        set_state(connection, name, NodeState.DOWN, now, name)


def silent_nodes(connection: Connection, now: float, limit_s: float) -> list[str]:
    """Nodes in use without a heartbeat for ``limit_s``, or with one in the future, since the clock was set back.

    A node whose agent has stopped is in use while it has jobs: they run on, and another agent is expected for them.
    """
    rows = connection.exec_driver_sql(
        f"SELECT name FROM nodes WHERE (state IN ('{NodeState.UP}', '{NodeState.DRAINING}')"
        f" OR (state = '{NodeState.DOWN}' AND name IN (SELECT p.node FROM allocations l CROSS JOIN allocation_nodes p"
        " ON p.allocation_id = l.id WHERE l.ended_at IS NULL AND p.ended_at IS NULL)))"
        " AND (heartbeat_at < ? OR heartbeat_at > ?)",
        (now - limit_s, now + limit_s),
    )
    return [row[0] for row in rows]


def open_allocations_of(connection: Connection, node: str) -> list[tuple[int, int]]:
    """(allocation, job) of allocations whose part on this node has not ended."""
    rows = connection.exec_driver_sql(
        "SELECT l.id, l.job_id FROM allocations l CROSS JOIN allocation_nodes p ON p.allocation_id = l.id"
        " AND p.node = ? WHERE l.ended_at IS NULL AND p.ended_at IS NULL ORDER BY l.id",
        (node,),
    )
    return [(allocation, job) for allocation, job in rows]


def resource_types(connection: Connection) -> set[str]:
    """Every type that any node has offered, also nodes that are down."""
    return {row[0] for row in connection.exec_driver_sql("SELECT DISTINCT c.key FROM nodes, json_each(capacity) c")}


def note_heartbeat(connection: Connection, nodes: Sequence[str], now: float) -> list[str]:
    """Record a heartbeat; returns the names that are unknown (their agent registers again)."""
    listed = json.dumps(list(nodes))
    connection.exec_driver_sql(
        "UPDATE nodes SET heartbeat_at = ? WHERE name IN (SELECT value FROM json_each(?))", (now, listed)
    )
    rows = connection.exec_driver_sql(
        "SELECT value FROM json_each(?) WHERE value NOT IN"
        f" (SELECT name FROM nodes WHERE state IN ('{NodeState.UP}', '{NodeState.DRAINING}'))",
        (listed,),
    )
    return [row[0] for row in rows]


class InUse(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts of open allocations: by node, and by their jobs' queue and application.

    An exclusive job takes its nodes whole.
    """

    by_node: Mapping[str, Resources]
    by_queue: Mapping[int, Resources]
    by_application: Mapping[int, Resources]


def read_nodes(connection: Connection) -> tuple[list[Node], InUse]:
    """All nodes by name with their used amounts, and the amounts that queues use."""
    known = all_nodes(connection.connection)
    use = _in_use(connection, {node.name: node.capacity for node in known})
    nodes = [msgspec.structs.replace(node, used=use.by_node.get(node.name, {})) for node in known]
    return nodes, use


def _in_use(connection: Connection, capacities: Mapping[str, Resources]) -> InUse:
    by_node: dict[str, Resources] = {}
    by_queue: dict[int, Resources] = {}
    by_application: dict[int, Resources] = {}
    rows = connection.exec_driver_sql(
        "SELECT l.nodes, l.resources, j.exclusive, j.queue_id, j.application_id FROM allocations l"
        " JOIN jobs j ON j.id = l.job_id WHERE l.ended_at IS NULL"
    )
    for names, resources, exclusive, queue, application in rows:
        amounts = json.loads(resources)
        for name in json.loads(names):
            taken = capacities.get(name, {}) if exclusive else amounts
            add_amounts(by_node.setdefault(name, {}), taken)
            add_amounts(by_queue.setdefault(queue, {}), taken)
            if application is not None:
                add_amounts(by_application.setdefault(application, {}), taken)
    return InUse(by_node=by_node, by_queue=by_queue, by_application=by_application)
