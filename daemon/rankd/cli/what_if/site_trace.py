"""A live site's own records as a trace: the jobs that were submitted in the last time, and the site's nodes."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from rankd.core.errors import Refused
from rankd.core.model.device import is_device_kind
from rankd.core.model.nodelist import unfold
from rankd.core.model.quantity import VCORE
from rankd.core.near_name import cut
from rankd.core.simulate.trace import UNKNOWN, TraceJob

MILLICORES = 1000

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
        Refused: the asker may not see the records.
    """
    from rankd.cli.common.record_source import open_source
    from rankd.wire.message import AccountingFilter

    since = time.time() - period_s(arguments.last)
    source = open_source(arguments)
    rows = source.accounting(AccountingFilter(since=since))
    return ended_since(rows, since), _nodes(source.nodes())


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
        has_gpus=any(amount and is_device_kind(kind) for kind, amount in (row.get("resources") or {}).items()),
    )


def _held(row: Row) -> float:
    """The cores that an exclusive job had; unknown for others, which have what they ask for."""
    allocated: Mapping[str, float] | None = row.get("allocated")
    return float(allocated.get("vcore") or UNKNOWN) if allocated else UNKNOWN


def _whole_nodes(row: Row) -> int:
    """How many nodes an exclusive job had; 0 for others."""
    return len(unfold(row["nodelist"])) if row.get("allocated") and row["nodelist"] else 0


def _nodes(rows: Sequence[Row]) -> list[Node]:
    from rankd.core.model.node import Node

    cores = {row["name"]: int(row["capacity"].get(VCORE, 0) * MILLICORES) for row in rows}
    return [Node(name=name, capacity={VCORE: amount}) for name, amount in cores.items() if amount >= MILLICORES]
