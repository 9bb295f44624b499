"""Why a job that was looked at waits: a stable code and the blocking fact, in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankd.core.model.quantity import shown
from rankd.core.placement.node_table import Demand, NodeTable
from rankd.core.placement.problem import NO_NODE_FITS, RESERVED, RESOURCES
from rankd.core.placement.quota import Account, Over
from rankd.core.placement.request import Shape


class Reason(NamedTuple):
    """A code and the fact behind it."""

    code: str
    fact: str


def over_quota(found: Over) -> Reason:
    """A queue's maximum, or a user's or group's limit."""
    return Reason(found.account.reason, found.account.explain(found.blocked))


def over_whole(account: Account) -> Reason:
    """Nodes that an exclusive job would take whole are more than one of its accounts leaves."""
    return Reason(account.reason, f"whole nodes are more than {account.name} may still take")


def not_able(shape: Shape, n_able: int, table: NodeTable) -> Reason:
    """Too few nodes that are up could hold it, were they empty."""
    asked = f"{shape.min_nodes} node(s) with {described(shape)} asked"
    missing = _missing(shape, table)
    return Reason(NO_NODE_FITS, f"{asked}; {n_able} of {len(table.nodes)} could hold it{missing}")


def lacking(shape: Shape, n_free: int, demand: Demand, table: NodeTable, backfill: str) -> Reason:
    """Too few nodes have room now."""
    asked = f"{shape.min_nodes} node(s) with {described(shape)} free asked"
    fact = f"{asked}, {n_free} have room now, {demand.n_able} could hold it"
    free = table.free[demand.able].max(axis=0, initial=0)
    lacks = [kind for column, kind in enumerate(table.types) if demand.vector[column] > free[column]]
    fact += f"; no node has so much {' or '.join(lacks)} free" if lacks else ""
    if backfill == "none":
        fact += "; no room is kept for it, later jobs that fit go first"
    return Reason(RESOURCES, fact)


def reserved(job: int | None, node: str) -> Reason:
    """There is room, but it is promised to a job that it would delay."""
    return Reason(RESERVED, f"it would delay job {job}, for which {node} is kept")


def described(shape: Shape) -> str:
    """``vcore 4, memory 1073741824, gpu=a100, exclusive``."""
    parts = [f"{kind} {shown(kind, amount):g}" for kind, amount in sorted(shape.resources.items())]
    parts += [shape.constraints] if shape.constraints else []
    return ", ".join(parts + (["exclusive"] if shape.exclusive else [])) or "nothing in particular"


def _missing(shape: Shape, table: NodeTable) -> str:
    """What no node that is up has enough of, if it is one type alone."""
    most = table.capacity[table.up].max(axis=0, initial=0)
    columns = {kind: column for column, kind in enumerate(table.types)}
    lacks = [
        f"{kind} (at most {shown(kind, int(most[columns[kind]]) if kind in columns else 0):g})"
        for kind, amount in sorted(shape.resources.items())
        if kind not in columns or amount > int(np.int64(most[columns[kind]]))
    ]
    return f"; no node has so much {', '.join(lacks)}" if lacks else ""
