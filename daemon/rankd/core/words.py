"""What rankd's words for decisions, states and reasons mean in plain English: ends of sentences about a job."""

from __future__ import annotations

from collections.abc import Mapping

DECISIONS: Mapping[str, str] = {
    "priority": "its priority is higher",
    "queue": "of the queues' offsets and fences, although its own priority is lower",
    "queue order": "its queue has used less of its share; the priorities are equal",
    "submission": "it was submitted earlier; the priorities are equal",
}
"""Why one of two neighbours in the ranking is before the other, by what decided."""
OVERRIDES: Mapping[str, str] = {
    "initial": "it has no points yet",
    "expedited": "its urgency is 31",
    "fixed": "its priority is fixed",
    "class": "only priority classes count in this configuration",
    "fcfs": "only the time of submission counts in this configuration",
}
"""Why a priority is not the sum of the points."""
STATES: Mapping[str, str] = {
    "completed": "has completed",
    "failed": "has failed",
    "timeout": "has reached its time limit",
    "cancelled": "was cancelled",
    "node_lost": "was lost with its node",
    "out_of_memory": "was killed for memory",
}
"""How a job that does not wait has ended."""
REASONS: Mapping[str, str] = {
    "held": "it is held",
    "dependency": "it waits for other jobs",
    "dependency never satisfied": "it can never start, since it waits for what can't happen any more",
    "array limit": "as many tasks of its array run as may run at a time",
    "begin time": "its begin time has not come",
    "resources": "there is no room now",
    "no node fits": "too few nodes could hold it at present",
    "queue quota": "its queue is at its maximum",
    "reserved": "the room is kept for a job before it",
    "user limit": "its user or group is at a limit",
    "application waiting": "its application waits for its turn",
    "not eligible": "its queue can't hold jobs any more",
}
"""Why a waiting job does not run."""
