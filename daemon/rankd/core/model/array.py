"""Arrays of jobs: the notation ``LIST[%N]``, and the names of tasks, such as ``17_3`` and ``17_[1-5,9]``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from rankd.core.errors import Refused
from rankd.core.model.id_range import parse_range
from rankd.core.model.index_set import EMPTY, LARGEST_INDEX, IndexSet, bad, count, parse, step_of, written
from rankd.core.model.quantity import LARGEST

_NAME = re.compile(r"(?P<job>[0-9]{1,19})(?:_(?:(?P<task>[0-9]+)|\[(?P<list>[^\]]*)\]))?", re.ASCII)

LONGEST_LIST = 64
"""Characters of a list of indices that people see, as in Slurm."""


class ArraySpan(NamedTuple):
    """What a task learns about its array: the number of all tasks, the first and the last index, and the step."""

    tasks: int
    first: int
    last: int
    step: int


class ArrayRequest(NamedTuple):
    """The indices of an array, and how many of its tasks may run at a time; None means any number.

    ``span``: that of the whole array, if these tasks repeat some of another one; None means that of ``indices``.
    """

    indices: IndexSet
    limit: int | None
    span: ArraySpan | None = None


class TaskOfArray(NamedTuple):
    """A task, and what it learns about its array: the number of all tasks, the first and last index, and the step."""

    job: int
    task: int
    tasks: int
    first: int
    last: int
    step: int


class JobName(NamedTuple):
    """What a name means: a whole job or array (``indices`` empty), or some tasks of an array."""

    job: int
    indices: IndexSet = EMPTY

    def __str__(self) -> str:
        if not self.indices:
            return str(self.job)
        listed = written(self.indices)
        return f"{self.job}_{listed}" if count(self.indices) == 1 else f"{self.job}_[{listed}]"


def parse_array(text: str, most: int = LARGEST_INDEX + 1) -> ArrayRequest:
    """The indices and the limit of ``LIST[%N]``. ``most``: the most tasks that an array may have.

    Raises:
        Refused: ``bad_array``, ``array_too_large``.
    """
    listed, percent, limit = text.partition("%")
    if percent and not (limit.isascii() and limit.isdigit() and len(limit) <= 9 and int(limit) > 0):
        raise bad(f"'%{limit[:20]}' is not a number of tasks that may run at a time, from 1 on")
    return ArrayRequest(parse(listed, most), int(limit) if percent else None)


def span_of(indices: IndexSet) -> ArraySpan:
    """The span of a whole array."""
    return ArraySpan(count(indices), indices[0][0], indices[-1][-1], step_of(indices))


def parse_name(name: int | str) -> JobName:
    """The job or the tasks that a name means: 17, ``17``, ``17_3`` or ``17_[1-5,9]``.

    Raises:
        Refused: ``bad_job_id``, ``bad_array``, ``array_too_large``.
    """
    if isinstance(name, int):
        return JobName(name)
    found = _NAME.fullmatch(name)
    if found is None and parse_range(name) is not None:
        raise Refused("bad_job_id", f"{name} means several jobs; name one, such as {name.partition('-')[0]}", "id")
    if found is None or int(found["job"]) > LARGEST:
        raise Refused("bad_job_id", f"'{name[:40]}' is not a job; write 17, 17_3 or 17_[1-5,9]", "id")
    listed = found["task"] if found["task"] is not None else found["list"]
    return JobName(int(found["job"]), EMPTY if listed is None else parse(listed))


def by_kind(names: Iterable[int | str]) -> tuple[list[int], list[str]]:
    """The ids among these names, and the texts. A request may have 100,000 names, most of them ids.

    >>> by_kind([17, "18_3", 19])
    ([17, 19], ['18_3'])
    """
    given = list(names)
    return [name for name in given if isinstance(name, int)], [name for name in given if isinstance(name, str)]


def shown_name(job: int, array_job: int | None, task: int | None, array: str | None, limit: int | None) -> str:
    """The name of a record for people: ``17``, ``17_3``, or ``17_[4-99%4]`` for the waiting rest of an array."""
    if array_job is not None:
        return f"{array_job}_{task}"
    if array is None:
        return str(job)
    return f"{job}_[{array}]" if limit is None else f"{job}_[{array}%{limit}]"


def shown_list(indices: str | None) -> str | None:
    """A list of indices, shortened to :data:`LONGEST_LIST` characters."""
    if indices is None or len(indices) <= LONGEST_LIST:
        return indices
    return f"{indices[:LONGEST_LIST].rpartition(',')[0]},..."
