"""Paths of queues as users write them. A module of its own, since commands import it at each start."""

from __future__ import annotations

_ROOT = "root"
"""As in :mod:`rankd.core.model.queue`, whose import takes 2 ms."""


def full_path(queue: str) -> str:
    """The path with ``root.``, which users may leave out.

    >>> full_path("gpu"), full_path("ROOT.gpu"), full_path("root"), full_path("rooted.a")
    ('root.gpu', 'ROOT.gpu', 'root', 'root.rooted.a')
    """
    return queue if queue.partition(".")[0].lower() == _ROOT else f"{_ROOT}.{queue}"
