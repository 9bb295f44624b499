"""What a job's user wants to be notified of, and where: the field ``notify`` of a job."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from types import MappingProxyType
from typing import Literal

import msgspec

Kind = Literal["start", "end", "fail", "timeout", "requeue", "idle", "all", "tasks"]


class Notify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``on``: the events. ``to``: the targets as URLs; without any, the user's own mailbox in the site's domain.

    ``tasks`` in ``on``: of an array, each task notifies, in place of the array as a whole.
    ``if_allowed``: targets that the site does not allow are left out with a warning. Without it, the job is refused.
    """

    on: list[Kind]
    to: list[str] = []
    if_allowed: bool = False


class Wanted(IntFlag):
    """:attr:`Notify.on` as a number, as the records have it beside each job."""

    START = 1
    END = 2
    FAIL = 4
    TIMEOUT = 8
    REQUEUE = 16
    TASKS = 32
    IDLE = 64


ALL = Wanted.START | Wanted.END | Wanted.FAIL | Wanted.TIMEOUT | Wanted.REQUEUE | Wanted.IDLE
OF_WHOLE_ARRAYS = Wanted.START | Wanted.END | Wanted.FAIL
"""What can happen to an array as a whole."""

_WANTED: Mapping[Kind, Wanted] = MappingProxyType(
    {
        "start": Wanted.START,
        "end": Wanted.END,
        "fail": Wanted.FAIL,
        "timeout": Wanted.TIMEOUT,
        "requeue": Wanted.REQUEUE,
        "idle": Wanted.IDLE,
        "all": ALL,
        "tasks": Wanted.TASKS,
    }
)


def wanted_of(notify: Notify) -> Wanted:
    """All kinds of ``on`` together.

    >>> int(wanted_of(Notify(on=["start", "fail"])))
    5
    """
    found = Wanted(0)
    for kind in notify.on:
        found |= _WANTED[kind]
    return found


_OF_EVENT: Mapping[str, Wanted] = MappingProxyType(
    {
        "start": Wanted.START,
        "complete": Wanted.END,
        "cancel": Wanted.END,
        "fail": Wanted.END | Wanted.FAIL,
        "lose_node": Wanted.END | Wanted.FAIL,
        "exceed_memory": Wanted.END | Wanted.FAIL,
        "time_out": Wanted.END | Wanted.FAIL | Wanted.TIMEOUT,
        "requeue": Wanted.REQUEUE,
        "idle": Wanted.IDLE,
    }
)


def is_wanted(event: str, wanted: int, *, is_task: bool = False, is_array: bool = False) -> bool:
    """Whether a job's event is one that its user wants to hear of.

    ``wanted``: the number of :class:`Wanted` of the job. Without ``TASKS``, a task counts only with its start, which
    may be the start of its array. With it, the array as a whole does not count.

    >>> is_wanted("time_out", Wanted.FAIL), is_wanted("complete", Wanted.FAIL)
    (True, False)
    >>> [is_wanted("complete", Wanted.END | tasks, is_task=True) for tasks in (0, Wanted.TASKS)]
    [False, True]
    """
    has_tasks = bool(wanted & Wanted.TASKS)
    counts = not has_tasks if is_array else has_tasks or not is_task or event == "start"
    return counts and bool(_OF_EVENT.get(event, 0) & wanted)
