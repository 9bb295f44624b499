"""Named jobs that a list does not have: whether they exist at all. All lists report unknown names in the same way."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rankd.cli.common.limit import MOST_BY_BUS
from rankd.cli.common.screen import print_line
from rankd.core.errors import Refused
from rankd.core.model.array import JobName, parse_name
from rankd.core.model.id_range import apart, written_range
from rankd.core.model.index_set import contains
from rankd.core.near_name import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.cli.common.record_source import Source
    from rankd.store.engine.reading import Row
    from rankd.wire.job_selection import JobFilter

MOST_ASKED = 10
"""The most missing names that are looked up, and that a message lists."""


def has_nothing(source: Source, wanted: JobFilter, rows: Sequence[Row]) -> bool:
    """Print which of the named jobs do not exist; returns whether nothing else was found.

    A job that exists, but does not match the other conditions, is not reported.
    """
    if not wanted.ids:
        return False
    named = apart(wanted.ids)
    jobs = {row.get("array_job") or row["id"] for row in rows}
    known = jobs | {row["id"] for row in rows}
    missing = [name for name in named.names if not _is_among(name, known, rows)]
    unknown = [str(name) for name in missing[:MOST_ASKED] if not _exists(source, name)]
    if len(unknown) == MOST_ASKED < len(missing):
        unknown.append("…")
    if unknown:
        print_line(f"rankd: there is no job {', '.join(unknown)}", error=True)
    is_cut = len(rows) >= min(wanted.limit, MOST_BY_BUS) or _has_conditions(wanted)
    empty = [] if is_cut else [ids for ids in named.ranges if not any(job in ids for job in jobs)]
    for ids in islice(empty, MOST_ASKED):
        print_line(f"rankd: there is no job in {written_range(ids)}", error=True)
    return not rows and bool(unknown or empty)


def say_if_unnamed(wanted: JobFilter, rows: Sequence[Row]) -> None:
    """Print what ``-n`` means in rankd, if no job has the names: sacct's ``-n`` leaves out the header."""
    if wanted.names and not rows:
        named = f"no job here has the name {', '.join(map(cut, wanted.names[:MOST_ASKED]))}"
        print_line(f"rankd: {named}; -n is --name in rankd; -H leaves out the header", error=True)


def _is_among(name: int | str, known: set[int], rows: Sequence[Row]) -> bool:
    parsed = parse_name(name)
    if not parsed.indices:
        return parsed.job in known
    return any(_is_of(row, parsed) for row in rows)


def _is_of(row: Row, name: JobName) -> bool:
    """Whether a row is one of these tasks, or the record of their array."""
    if row.get("array_job") is None:
        return bool(row["id"] == name.job)
    task = row.get("array_task")
    return row["array_job"] == name.job and (task is None or contains(name.indices, task))


def _exists(source: Source, name: int | str) -> bool:
    """Whether there is such a job. Of several tasks, whether there is the first one.

    Raises:
        Refused: the asker may not see it.
    """
    parsed = parse_name(name)
    try:
        source.job(f"{parsed.job}_{parsed.indices[0][0]}" if parsed.indices else parsed.job)
    except Refused as error:
        if error.code != "unknown_job":
            raise
        return False
    return True


def _has_conditions(wanted: JobFilter) -> bool:
    given = (wanted.users, wanted.accounts, wanted.queues, wanted.partitions, wanted.states, wanted.names, wanted.qos)
    times = (getattr(wanted, "since", None), getattr(wanted, "until", None))
    return any(one is not None for one in (*given, *times))
