"""A priority class: a name for a number, as in Kubernetes."""

from __future__ import annotations

import msgspec

PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
NEVER = "Never"


class PriorityClass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A priority class. ``value`` (int32) is added to the priority of its jobs."""

    name: str
    value: int
    global_default: bool = False
    description: str = ""
    preemption_policy: str = PREEMPT_LOWER_PRIORITY
