"""The states of a job. Clients import these alone, without all that a job has."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """The state of a job."""

    PENDING = "pending"
    ALLOCATED = "allocated"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    NODE_LOST = "node_lost"
    OUT_OF_MEMORY = "out_of_memory"


FINAL_STATES = frozenset(
    {State.COMPLETED, State.FAILED, State.TIMEOUT, State.CANCELLED, State.NODE_LOST, State.OUT_OF_MEMORY}
)
ENDED_BADLY = FINAL_STATES - {State.COMPLETED}
ACTIVE_STATES = frozenset({State.ALLOCATED, State.RUNNING})
