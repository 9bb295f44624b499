"""How allocations reach their nodes: when a node is reminded, and when an allocation is taken back."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

NOT_TAKEN = "not_taken"
"""The cause of an end that rankd decided because the node's agent did not take the allocation. The job did not run."""

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
MISSED_HEARTBEATS = 3

Newest = tuple[int, ...]
"""The ids of the newest allocation that waits for the node, and of the newest that the node must end.

An id is 0 if there is no such allocation. If orders for running jobs wait, the id of the newest order follows.
"""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest allocation that a node has not taken. Times are in UTC seconds.

    ``heard_at``: the node's last heartbeat. ``present``: its agent has not signed off.
    """

    node: str
    allocation: int
    job: int
    allocated_at: float
    heard_at: float
    present: bool = True


def is_away(heard_at: float, heartbeat_s: float, now: float) -> bool:
    """Whether a node has missed too many heartbeats (:data:`MISSED_HEARTBEATS`) to be expected to take allocations.

    >>> is_away(100.0, 5.0, now=114.0), is_away(100.0, 5.0, now=116.0)
    (False, True)
    """
    return now - heard_at > MISSED_HEARTBEATS * heartbeat_s


def is_overdue(waiting: Waiting, since: float, timeout_s: float, now: float) -> bool:
    """Whether the node, which is present, should have taken the allocation by now.

    ``since``: the latest of three times: the node asked for allocations, it came back, or the intake began to listen.

    >>> oldest = Waiting(node="n1", allocation=1, job=1, allocated_at=100.0, heard_at=118.0)
    >>> is_overdue(oldest, 0.0, 15.0, now=114.0), is_overdue(oldest, 0.0, 15.0, now=116.0)
    (False, True)
    >>> is_overdue(oldest, 110.0, 15.0, now=116.0)
    False
    """
    return now - max(waiting.allocated_at, since) > timeout_s


class _Reminder(msgspec.Struct):
    """The newest work that a node was reminded of, and when the next reminder is due."""

    newest: Newest
    again_at: float
    pause_s: float


class Hints:
    """Which nodes to remind of waiting work: at once of new work, then again after growing pauses."""

    def __init__(self) -> None:
        self._reminders: dict[str, _Reminder] = {}

    def due(self, waiting: Mapping[str, Newest], now: float) -> list[str]:
        """The nodes to remind now; ``now`` is monotonic.

        >>> hints = Hints()
        >>> [hints.due({"n1": (7, 0)}, now) for now in (0.0, 0.5, 1.0, 2.0, 3.0)]
        [['n1'], [], ['n1'], [], ['n1']]
        >>> hints.due({"n1": (8, 0)}, 3.1), hints.due({}, 3.2), hints.due({"n1": (8, 0)}, 3.3)
        (['n1'], [], ['n1'])
        """
        self._reminders = {node: last for node, last in self._reminders.items() if node in waiting}
        return [node for node, newest in waiting.items() if self._is_due(node, newest, now)]

    def _is_due(self, node: str, newest: Newest, now: float) -> bool:
        last = self._reminders.get(node)
        if last is None or last.newest != newest:
            self._reminders[node] = _Reminder(newest, now + FIRST_PAUSE_S, FIRST_PAUSE_S)
            return True
        if now < last.again_at:
            return False
        last.pause_s = min(2 * last.pause_s, LONGEST_PAUSE_S)
        last.again_at = now + last.pause_s
        return True
