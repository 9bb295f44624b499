"""Ranges of job ids, such as ``7-9``. A range means the jobs and arrays in it: the ids that ``rankd submit`` printed.

Tasks of arrays have records with ids of their own, which lie between those of jobs. A range never means such a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from rankd.core.errors import Refused
from rankd.core.model.quantity import LARGEST

MOST_RANGES = 100
"""The most separate ranges of a request: each of them costs a look-up, and each event is compared with all of them."""

_RANGE = re.compile(r"(?P<first>[0-9]{1,19})-(?P<last>[0-9]{1,19})", re.ASCII)


class Named(NamedTuple):
    """Names of single jobs, arrays and tasks; and ranges of ids, each once."""

    names: list[int | str]
    ranges: list[range]


def parse_range(text: str) -> range | None:
    """The ids from 7 to 9 for ``7-9``; None if the text has another form.

    >>> parse_range("7-9")
    range(7, 10)

    Raises:
        Refused: ``bad_job_id``: it ends before it begins.
    """
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    first, last = min(int(found["first"]), LARGEST), min(int(found["last"]), LARGEST)
    if first > last:
        raise Refused("bad_job_id", f"the range {text} ends before it begins; write the smaller id first", "id")
    return range(first, last + 1)


def written_range(ids: range) -> str:
    """The range as people write it.

    >>> written_range(range(7, 10))
    '7-9'
    """
    return f"{ids.start}-{ids.stop - 1}"


def apart(names: Iterable[int | str]) -> Named:
    """These names without the ranges among them, and the ranges.

    >>> apart([17, "18_3", "7-9"])
    Named(names=[17, '18_3'], ranges=[range(7, 10)])

    Raises:
        Refused: ``bad_job_id``; ``too_many``: more than :data:`MOST_RANGES` ranges.
    """
    others, ranges = list[int | str](), dict[range, None]()
    for name in names:
        ids = parse_range(name) if isinstance(name, str) else None
        if ids is None:
            others.append(name)
        else:
            ranges[ids] = None
    if len(ranges) > MOST_RANGES:
        message = f"{len(ranges)} ranges of ids are given, {MOST_RANGES} are allowed; name some at a time"
        raise Refused("too_many", message, "ids")
    return Named(others, list(ranges))


def bounds(ranges: Iterable[range]) -> list[tuple[int, int]]:
    """The first and last ids of these ranges, ascending. Ranges that overlap are one.

    >>> bounds([range(7, 10), range(1, 3), range(8, 12)])
    [(1, 2), (7, 11)]
    """
    found: list[tuple[int, int]] = []
    for ids in sorted(ranges, key=lambda one: one.start):
        if found and ids.start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], ids.stop - 1))
        else:
            found.append((ids.start, ids.stop - 1))
    return found
