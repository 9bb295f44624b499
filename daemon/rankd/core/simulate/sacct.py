"""Traces as Slurm's ``sacct --parsable2`` prints them: a header line with the fields, then a line per job.

``rankd acct --parsable2`` prints the same format. Steps (``17.batch``) are not jobs, and are passed over.

Source: the fields of Slurm's documentation of sacct, https://slurm.schedmd.com/sacct.html
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from rankd.core.errors import Refused
from rankd.core.model.device import in_lower_case, is_device_kind, without_sum
from rankd.core.model.quantity import LARGEST_TOTAL, MEMORY
from rankd.core.near_name import cut
from rankd.core.simulate.swf import LARGEST, MOST_LINES
from rankd.core.simulate.trace import UNKNOWN, Amounts, TraceJob
from rankd.core.slurm.duration import parse_duration
from rankd.core.slurm.tres import amount_of, parse_tres, resource_of

ADVICE = "sacct -a -X -P -o JobID,Submit,ElapsedRaw,TimelimitRaw,ReqCPUS,AllocCPUS,User,Account,Partition,ReqTRES"
"""A command that prints what is needed."""
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?")
_KEPT = 4096
"""The most texts whose amounts are remembered."""
_ENDLESS = frozenset({"", "unlimited", "partition_limit", "invalid", "unknown", "none"})
_NEEDED: Mapping[str, Sequence[str]] = {
    "the job": ("jobid", "jobidraw"),
    "its submission": ("submit",),
    "its run time": ("elapsedraw", "elapsed"),
    "its time limit": ("timelimitraw", "timelimit"),
    "its cores": ("alloccpus", "ncpus", "reqcpus"),
}


def is_sacct(first: bytes) -> bool:
    """Whether a file's first line is the header of such a trace."""
    names = first.decode("ascii", "replace").lower().strip().split("|")
    return len(names) > 1 and "submit" in names


def read_sacct(lines: Iterable[bytes]) -> Iterator[TraceJob]:
    """The jobs of these lines. Times count as UTC. A job's group is its account.

    Raises:
        Refused: ``bad_trace``: no header, a missing field, or a line that is not a job, with its number.
    """
    header: dict[str, int] = {}
    for place, line in enumerate(lines, start=1):
        if place > MOST_LINES:
            raise Refused("bad_trace", f"it has more than {MOST_LINES:,} lines; cut it", "trace")
        text = line.decode("utf-8", "replace").strip("\r\n")
        if not text.strip():
            continue
        if not header:
            header = _header(text)
            continue
        job = _Line(text.split("|"), header, place)
        if "." not in job.first("jobid", "jobidraw"):
            yield job.read()


def _header(text: str) -> dict[str, int]:
    names = {name.strip().lower(): place for place, name in enumerate(text.split("|"))}
    for what, fields in _NEEDED.items():
        if not names.keys() & set(fields):
            raise Refused("bad_trace", f"line 1: no field for {what} ({' or '.join(fields)}); write {ADVICE}", "trace")
    return names


@lru_cache(_KEPT)
def _others(tres: str) -> Amounts:
    """The memory and the devices of a list of TRES, on all nodes together; none of a list that can't be read.

    >>> _others("billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=1G,node=1")
    (('gpu:a100', 2), ('memory', 1073741824))
    """
    try:
        found = parse_tres(tres)
    except ValueError:
        return ()
    amounts: dict[str, int] = {}
    for name, (number, suffix) in found.items():
        kind = in_lower_case(resource_of(name) or "")
        if number > 0 and (kind == MEMORY or is_device_kind(kind)):
            amounts[kind] = min(amount_of(kind, number, suffix) or 0, LARGEST_TOTAL)
    return tuple(sorted((kind, amount) for kind, amount in without_sum(amounts).items() if amount))


class _Line:
    """The fields of a job."""

    def __init__(self, fields: Sequence[str], header: Mapping[str, int], line: int) -> None:
        self._fields, self._header, self._line = fields, header, line
        width = max(header.values()) + 1
        if len(fields) not in (width, width + 1):  # --parsable ends each line with one more |
            raise self._bad(f"it has {len(fields)} fields, the header {width}; leave out fields such as JobName")

    def read(self) -> TraceJob:
        requested = self._cores("reqcpus")
        allocated = self._cores("alloccpus", "ncpus")
        return TraceJob(
            number=self.first("jobid", "jobidraw"),
            submit_s=self._submitted(),
            run_s=self._duration("elapsedraw", "elapsed", unit_s=1.0),
            allocated=allocated,
            requested=requested,
            limit_s=self._duration("timelimitraw", "timelimit", unit_s=60.0),
            user=self.first("user"),
            group=self.first("account"),
            queue=self.first("queue") or self.first("partition"),
            partition=self.first("partition"),
            others=_others(self.first("reqtres") or self.first("alloctres")),
        )

    def first(self, *names: str) -> str:
        """The text of the first of these fields that the trace has; "" without any."""
        return next((self._fields[self._header[name]].strip() for name in names if name in self._header), "")

    def _cores(self, *names: str) -> float:
        text = self.first(*names)
        return UNKNOWN if text.lower() in _ENDLESS else self._number(text, names[0])

    def _duration(self, raw: str, shown: str, *, unit_s: float) -> float:
        """Seconds. The field ``raw`` is a number of ``unit_s``; ``shown`` is in Slurm's form."""
        name = raw if raw in self._header else shown
        text = self.first(name)
        if text.lower() in _ENDLESS:
            return UNKNOWN
        if name == raw:
            return self._number(text, name) * unit_s
        try:
            return parse_duration(text)
        except ValueError as error:
            raise self._bad(f"{name}: {error}") from None

    def _submitted(self) -> float:
        text = self.first("submit")
        if text.isdigit():
            return self._number(text, "submit")
        if not _INSTANT.fullmatch(text):
            raise self._bad(f"submit: '{cut(text)}' is not a time such as 2026-05-01T12:00:00")
        try:
            return float(np.datetime64(text, "s").astype(np.int64))
        except ValueError as error:
            raise self._bad(f"submit: {error}") from None

    def _number(self, text: str, name: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not abs(value) <= LARGEST:
            raise self._bad(f"{name}: '{cut(text)}' is not a number between -2^40 and 2^40")
        return value

    def _bad(self, what: str) -> Refused:
        return Refused("bad_trace", f"line {self._line}: {what}", "trace")
