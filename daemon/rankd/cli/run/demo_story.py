"""The demo's story: which user submits which jobs, and when. On simulated nodes, jobs only take time."""

from __future__ import annotations

from typing import Any, NamedTuple


class Wave(NamedTuple):
    """Jobs that a user submits ``at_s`` seconds into the demo, and the line that the demo prints."""

    at_s: float
    user: str
    telling: str
    jobs: list[dict[str, Any]]
    privileged: bool = False


def _sleeps(name: str, count: int, cores: int, seconds: float, **more: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - fields of a job
    return [
        {
            "command": ["sleep", f"{seconds:g}"],
            "name": f"{name}-{number}",
            "resources": {"vcore": cores, "memory": "256Mi"},
            "time_limit_s": 60,
            **more,
        }
        for number in range(1, count + 1)
    ]


def _hellos(user: str, count: int) -> list[dict[str, Any]]:
    return [
        {
            "command": ["sh", "-c", f"echo hello from {user} on $RANKD_NODE_NAME; sleep 1"],
            "name": f"hello-{number}",
            "time_limit_s": 60,
        }
        for number in range(1, count + 1)
    ]


STORY = [
    Wave(0, "alice", "alice (physics) floods the queue with 60 jobs", _sleeps("sweep", 60, 4, 5)),
    Wave(2, "bob", "bob (physics) adds a few small ones", _hellos("bob", 6) + _sleeps("fit", 10, 2, 4)),
    Wave(
        6,
        "carol",
        "carol (biology, a quarter of the shares) comes; she has used nothing yet",
        _sleeps("align", 24, 2, 5),
    ),
    Wave(10, "dave", "dave (biology) is an operator and uses the QoS high", _sleeps("assemble", 10, 4, 5, qos="high")),
    Wave(
        14,
        "bob",
        "bob, an operator too, uses the priority class high: +1000",
        _sleeps("deadline", 4, 4, 4, priority_class="high"),
    ),
    Wave(
        18,
        "alice",
        "an administrator expedites one of alice's jobs (urgency 31)",
        _sleeps("expedited", 1, 4, 4, urgency=31),
        privileged=True,
    ),
    Wave(
        20,
        "carol",
        "carol sends background work into a fenced queue: it yields to everybody",
        _sleeps("cleanup", 6, 2, 3, queue="root.background"),
    ),
]
"""Submissions in order of time."""
