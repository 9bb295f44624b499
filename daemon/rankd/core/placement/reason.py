"""Why a job waits: a stable code, and the blocking fact in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rankd.core.instant import shown_instant
from rankd.core.model.amount_text import compared, shown_amount
from rankd.core.model.device import Device, DeviceState, is_device_kind, is_of, model_of, without_sum
from rankd.core.model.node import Node, NodeState
from rankd.core.model.quantity import Resources
from rankd.core.model.reason_code import NO_NODE_FITS, RESERVED, RESOURCES
from rankd.core.placement.constraint import shown_constraints, split_names
from rankd.core.placement.node_set import Demand
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.quota import Account, Over
from rankd.core.placement.request import Shape, counted_nodes, described_request

MOST_NAMED = 3
"""Nodes, and devices of a node, in a fact."""


class Reason(NamedTuple):
    """A stable code, and the blocking fact in words."""

    code: str
    fact: str


def over_quota(found: Over) -> Reason:
    """The job would exceed a queue's maximum, or the limit of a user or group."""
    return Reason(found.account.reason, found.account.explain(found.blocked))


def over_whole(account: Account, whole: Sequence[Resources], nodes: int) -> Reason:
    """An exclusive job takes whole nodes, and these are more than one of its accounts allows.

    ``whole``: the amounts of each node that could hold it; ``nodes``: how many of them it needs.
    """
    least = {kind: sum(sorted(one.get(kind, 0) for one in whole)[:nodes]) for kind in account.room}
    for kind, most in account.maximum[0].items():
        if least[kind] > most:
            held, limit = compared(kind, least[kind], most)
            fact = f"it is exclusive and would hold {kind} {held}, but the limit of {account.name} is {limit}"
            return Reason(account.reason, f"{fact}. It can't start; leave out --exclusive")
    return Reason(account.reason, f"whole nodes are more than {account.name} may still take")


def over_models(accounts: Sequence[Account]) -> Reason:
    """The free devices that a job without a named model would get are of models that its accounts limit."""
    account = next(account for account in accounts if any(model_of(kind) for kind in account.room))
    return Reason(account.reason, f"the free devices are of models of which {account.name} may not take that many")


def not_able(shape: Shape, n_able: int, table: NodeTable) -> Reason:
    """Too few of the nodes that are up could hold the job, even if they were empty."""
    facts, key = table.set.facts, (id(shape), n_able)
    if key not in facts:
        able = f"{n_able} of {counted_nodes(len(table.nodes))} could hold it"
        fact = f"it needs {described_request(shape)}. {able}.{_missing(shape, table)}{_later(shape, table)}"
        table.set.keep_fact(key, shape, fact.removesuffix("."))
    return Reason(NO_NODE_FITS, facts[key][1])


def lacking(
    shape: Shape, n_free: int, demand: Demand, largest: Sequence[int], table: NodeTable, backfill: str
) -> Reason:
    """Too few nodes have room now. ``largest``: for each column, the largest amount that any node has free."""
    lacks = tuple(column for column, amount in demand.pairs if amount > largest[column])
    facts, key = table.set.facts, (id(shape), n_free, demand.n_able, lacks, backfill)
    if key not in facts:
        fact = f"it needs {described_request(shape)} free. {_room(n_free, demand.n_able)}."
        types = list(without_sum({table.types[column]: 1 for column in lacks if column < len(table.types)}))
        fact += f" No node has enough {' or '.join(types)} free." if types else ""
        fact += _out_of_use(shape, demand, table)
        fact += " No room is kept for it: later jobs that fit go first." if backfill == "none" else ""
        table.set.keep_fact(key, shape, fact.removesuffix("."))
    return Reason(RESOURCES, facts[key][1])


def reserved(node: str, job: int, at: float) -> Reason:
    """The node has room, but it is reserved for another job, whose start at ``at`` would be delayed."""
    return Reason(RESERVED, f"it would delay job {job}, for which {node} is kept from {shown_instant(at)} on")


def in_order(job: int) -> Reason:
    """It has room, but another job of the partition is before it, and none may be passed."""
    return Reason(
        RESERVED, f"job {job} is before it and waits for nodes; scheduling.backfill is strict, so it waits too"
    )


def _room(n_free: int, n_able: int) -> str:
    """``2 nodes could hold it, but only 1 has room now``."""
    if n_free == 0:
        return f"{counted_nodes(n_able)} could hold it, but {'it has no' if n_able == 1 else 'none has'} room now"
    return f"{counted_nodes(n_able)} could hold it, but only {n_free} {'has' if n_free == 1 else 'have'} room now"


def _missing(shape: Shape, table: NodeTable) -> str:
    """The types of which no single node that is up has enough; empty if there are none."""
    most = table.capacity[table.up].max(axis=0, initial=0)
    columns = {kind: column for column, kind in enumerate(table.types)}
    lacks = [
        f"{kind} (at most {shown_amount(kind, int(most[columns[kind]]) if kind in columns else 0)})"
        for kind, amount in sorted(shape.resources.items())
        if kind not in columns or amount > int(np.int64(most[columns[kind]]))
    ]
    return f" No node has enough {', '.join(lacks)}." if lacks else _apart(shape, table)


def _apart(shape: Shape, table: NodeTable) -> str:
    """Which parts of the request too few nodes meet; if enough meet each, that they do not meet them together."""
    columns = {kind: column for column, kind in enumerate(table.types)}
    matching = table.set.matching(shape.constraints)
    numbers = {
        f"{kind} {shown_amount(kind, amount)}": int(
            (table.capacity[table.up & matching, columns[kind]] >= amount).sum()
        )
        for kind, amount in sorted(without_sum(shape.resources).items())
    }
    if shape.constraints:
        numbers = {shape.constraints: int((table.up & matching).sum())} | numbers
    few = {part: number for part, number in numbers.items() if number < shape.min_nodes}
    if few:
        part, number = next(iter(few.items()))  # what meets no constraint has no amounts either
        if part == shape.constraints and (named := _named(shape.constraints)):
            return f" {f'Only {counted_nodes(number)}' if number else 'No node'} {named} {_are(number)} up."
        return f" Only {counted_nodes(number)} that {'is' if number == 1 else 'are'} up can give {part}."
    numbers = {shown_constraints(part) if part == shape.constraints else part: n for part, n in numbers.items()}
    return f" Each part is met by enough nodes ({_listed(numbers)}), but not all of them together."


def _are(number: int) -> str:
    return "are" if number > 1 else "is"


def _named(constraints: str) -> str:
    """``with gpu=a100 and named n1 or n2``; empty if the constraints name no nodes."""
    labels, names = split_names(constraints)
    if not names:
        return ""
    has = [f"with {', '.join(labels)}"] if labels else []
    return " and ".join(has + [f"{'named' if is_in else 'not named'} {named}" for is_in, named in names])


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{part}: {number}" for part, number in numbers.items())


def _out_of_use(shape: Shape, demand: Demand, table: NodeTable) -> str:
    """Which devices that it asks for are kept from it, on nodes that could hold it; may be empty."""
    kinds = [kind for kind in without_sum(shape.resources) if is_device_kind(kind)]
    rows = table.set.rows_out_of_use(kinds) if kinds else np.empty(0, dtype=np.int64)
    able = rows[demand.able[rows]].tolist()
    if not able:
        return ""
    named = "; ".join(f"{(node := table.nodes[row]).name}: {_states(node, kinds)}" for row in able[:MOST_NAMED])
    more = f"; and more on {counted_nodes(len(able) - MOST_NAMED)}" if len(able) > MOST_NAMED else ""
    return f" Out of use: {named}{more}."


def _states(node: Node, kinds: Sequence[str]) -> str:
    """``gpu 0 drained, gpu 2 failed``: the devices of these kinds that new jobs do not get."""
    out = [one for one in sorted(node.devices, key=_index) if one.state is not DeviceState.OK and is_of(one, kinds)]
    named = ", ".join(f"{one.type} {one.index} {one.state}" for one in out[:MOST_NAMED])
    return named + (f" and {len(out) - MOST_NAMED} more" if len(out) > MOST_NAMED else "")


def _later(shape: Shape, table: NodeTable) -> str:
    """The nodes that could hold it later, and why they can't now."""
    nodes = table.set.later(shape)
    if not nodes:
        return ""
    named = ", ".join(f"{node.name} ({_obstacle(node)})" for node in nodes[:MOST_NAMED])
    more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
    return f" That may change: {named}{more} could hold it otherwise."


def _obstacle(node: Node) -> str:
    if node.state is not NodeState.UP:
        return str(node.state)
    failed = [f"{one.type} {one.index}" for one in sorted(node.devices, key=_index) if one.state is DeviceState.FAILED]
    return f"{', '.join(failed[:MOST_NAMED])}{' …' if len(failed) > MOST_NAMED else ''} failed"


def _index(device: Device) -> int:
    return device.index
