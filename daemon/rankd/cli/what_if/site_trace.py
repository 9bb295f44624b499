"""A live site's own records as a trace: the jobs that were submitted in the last time, and the site's nodes."""

from __future__ import annotations

import re
import time
from itertools import chain
from typing import TYPE_CHECKING

from rankd.core.errors import Refused
from rankd.core.model.device import without_sum
from rankd.core.model.nodelist import unfold
from rankd.core.model.quantity import VCORE
from rankd.core.near_name import cut
from rankd.core.simulate.trace import UNKNOWN, Amounts, TraceJob

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

    from rankd.core.model.node import Node
    from rankd.store.engine.reading import Row

_UNITS_S = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_PERIOD = re.compile(r"(?P<count>[1-9][0-9]{0,5})(?P<unit>[mhdw])")


def period_s(text: str) -> float:
    """The seconds of a period such as ``30d``, ``12h``, ``90m`` or ``2w``.

    Raises:
        Refused: ``usage``: it is none.
    """
    match = _PERIOD.fullmatch(text.strip().lower())
    if match is None:
        raise Refused("usage", f"--last: '{cut(text)}' is not a period; write 30d, 12h, 90m or 2w", "last")
    return float(int(match["count"]) * _UNITS_S[match["unit"]])


def site_records(arguments: argparse.Namespace) -> tuple[list[TraceJob], list[Node]]:
    """The ended jobs that were submitted in the last period, and the nodes of the records.

    Raises:
        Unavailable: no rankd was found.
        Refused: the asker may not see the records; ``no_jobs``, ``no_nodes``: there are none.
    """
    from rankd.cli.common.record_source import open_source
    from rankd.wire.message import AccountingFilter

    since = time.time() - period_s(arguments.last)
    source = open_source(arguments)
    pages = source.accounting_pages(AccountingFilter(since=since, after=0))
    jobs = ended_since(chain.from_iterable(pages), since)
    if not jobs:
        what = f"the site has no job that was submitted in the last {arguments.last} and has ended"
        raise Refused("no_jobs", f"{what}; take a longer period, such as --last 52w, or give a trace", "last")
    if arguments.procs is not None or arguments.nodes is not None:
        return jobs, []
    nodes = nodes_of(source.nodes(), source.devices())
    if not nodes:
        what = "the records have no node with a core"
        raise Refused("no_nodes", f"{what}; say how large the machine is: --procs N or --nodes FILE", "procs")
    return jobs, nodes


def ended_since(rows: Iterable[Row], since: float) -> list[TraceJob]:
    """The ended jobs that were submitted since then, in UTC seconds, by submission.

    An array counts by its tasks: the array's own record is left out if its tasks have records.
    """
    jobs = [record(row) for row in rows if row["ended_at"] is not None and row["submitted_at"] >= since and _works(row)]
    return sorted(jobs, key=lambda job: job.submit_s)


def _works(row: Row) -> bool:
    """Whether a record stands for work of its own: it is not the one of an array whose tasks have records."""
    return row.get("array_job") is not None or not row.get("has_tasks")


def record(row: Row) -> TraceJob:
    """A job as a trace has it. Its size is that of its last run, else what it asked for."""
    asked = float(row["cores"])
    begun, ended = row["started_at"], row["ended_at"]
    is_task = row.get("array_task") is not None
    return TraceJob(
        number=f"{row['array_job']}_{row['array_task']}" if is_task else str(row["id"]),
        submit_s=float(row["submitted_at"]),
        run_s=UNKNOWN if begun is None or ended is None else float(ended) - float(begun),
        allocated=_held(row),
        requested=asked,
        limit_s=UNKNOWN if row["time_limit_s"] is None else float(row["time_limit_s"]),
        user=row["user"],
        group=row["account"] or "",
        queue=row["queue"] or "",
        partition=row["partition"] or "",
        whole_nodes=_whole_nodes(row),
        nodes=int(row.get("nodes") or 0),
        others=_others(row),
    )


def _others(row: Row) -> Amounts:
    """What a job asked for besides cores, on all its nodes together."""
    asked = without_sum({kind: int(amount) for kind, amount in (row.get("resources") or {}).items() if kind != VCORE})
    return tuple(sorted((kind, amount * int(row.get("nodes") or 1)) for kind, amount in asked.items() if amount))


def _held(row: Row) -> float:
    """The cores that an exclusive job had; unknown for others, which have what they ask for."""
    allocated: Mapping[str, float] | None = row.get("allocated")
    return float(allocated.get("vcore") or UNKNOWN) if allocated else UNKNOWN


def _whole_nodes(row: Row) -> int:
    """How many nodes an exclusive job had; 0 for others."""
    return len(unfold(row["nodelist"])) if row.get("allocated") and row["nodelist"] else 0


def nodes_of(rows: Sequence[Row], devices: Sequence[Row]) -> list[Node]:
    """The nodes of the records with at least one core, and their devices. All count as up, and all devices as usable.

    ``devices``: rows of the view ``device``.
    """
    from rankd.core.admission.node_check import node_capacity
    from rankd.core.model.device import Device
    from rankd.core.model.node import Node

    own: dict[str, list[Device]] = {}
    for row in devices:
        if row["state"] == "gone":
            continue
        device = Device(
            model=row["model"], id=row["id"], index=row["index"], group=row["group"], memory=row["memory"] or 0
        )
        own.setdefault(row["node"], []).append(device)
    return [
        Node(
            name=row["name"],
            partition=row["partition"],
            capacity=node_capacity(row["capacity"], own.get(row["name"], ())),
            devices=tuple(own.get(row["name"], ())),
        )
        for row in rows
        if row["capacity"].get(VCORE, 0) >= 1
    ]
