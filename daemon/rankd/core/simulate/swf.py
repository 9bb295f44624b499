"""Traces in the Standard Workload Format.

A line is a job: 18 numbers with blanks between them, -1 for what is not known. Lines that begin with ``;`` are a
header. Some archives append further columns, which are not read.

Source: Chapin et al., Benchmarks and standards for the evaluation of parallel job schedulers, JSSPP 1999;
https://www.cs.huji.ac.il/labs/parallel/workload/swf.html
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache

from rankd.core.errors import Refused
from rankd.core.near_name import cut
from rankd.core.simulate.trace import UNKNOWN, TraceJob

N_FIELDS = 18
LARGEST = 2.0**40
"""The largest number that is read: 35,000 years in seconds."""
MOST_LINES = 20_000_000
"""The most lines of a trace. The largest of the Parallel Workloads Archive has 5 million jobs."""

_NAMES_KEPT = 65_536

_NUMBER, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _LIMIT = 0, 1, 3, 4, 7, 8
_USER, _GROUP, _QUEUE, _PARTITION = 11, 12, 14, 15


def read_swf(lines: Iterable[bytes]) -> Iterator[TraceJob]:
    """The jobs of these lines. A user 3 is named ``u3``, a group ``g3``, a queue ``q3``, a partition ``p3``.

    Raises:
        Refused: ``bad_trace``: a line that is not a job, with its number; or too many lines.
    """
    for place, line in enumerate(lines, start=1):
        if place > MOST_LINES:
            raise Refused("bad_trace", f"it has more than {MOST_LINES:,} lines; cut it", "trace")
        text = line.strip()
        if text and not text.startswith(b";"):
            yield _job(text.split(None, N_FIELDS), place)


def _job(fields: list[bytes], line: int) -> TraceJob:
    if len(fields) < N_FIELDS:
        columns = "column" if len(fields) == 1 else "columns"
        raise _bad(line, f"it has {len(fields)} {columns}; a job has {N_FIELDS}")
    number = _value(fields, _NUMBER, line)
    submit_s = _value(fields, _SUBMIT, line)
    if submit_s < 0:
        raise _bad(line, "column 2, the time of submission, is negative")
    return TraceJob(
        number=f"{number:.0f}",
        submit_s=submit_s,
        run_s=_value(fields, _RUN, line),
        allocated=_value(fields, _ALLOCATED, line),
        requested=_value(fields, _REQUESTED, line),
        limit_s=_value(fields, _LIMIT, line),
        user=_name("u", _value(fields, _USER, line)),
        group=_name("g", _value(fields, _GROUP, line)),
        queue=_name("q", _value(fields, _QUEUE, line)),
        partition=_name("p", _value(fields, _PARTITION, line)),
    )


def _value(fields: list[bytes], column: int, line: int) -> float:
    try:
        value = float(fields[column])
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST:
        text = cut(fields[column].decode("ascii", "replace"))
        raise _bad(line, f"column {column + 1}: '{text}' is not a number between -2^40 and 2^40")
    return value


@lru_cache(_NAMES_KEPT)
def _name(letter: str, value: float) -> str:
    """The name for a number. Jobs share the text: millions of them would take hundreds of bytes each."""
    return "" if value <= UNKNOWN else f"{letter}{value:.0f}"


def _bad(line: int, what: str) -> Refused:
    return Refused("bad_trace", f"line {line}: {what}", "trace")
