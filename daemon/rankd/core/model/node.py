"""A node: its capacity, how much of it is used, and whether it takes more jobs."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rankd.core.model.device import Device
from rankd.core.model.quantity import Resources


class NodeState(StrEnum):
    """``up`` nodes take jobs. ``draining`` nodes take no new jobs. ``down`` and ``lost`` nodes do not count."""

    UP = "up"
    DRAINING = "draining"
    DOWN = "down"
    LOST = "lost"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node. Amounts are internal ones: thousandths of a core, bytes.

    ``capacity`` includes what ``devices`` offer. A node without devices may count GPUs that are not assigned to jobs.
    """

    name: str
    partition: str = "default"
    capacity: Resources
    used: Resources = {}
    labels: dict[str, str] = {}
    state: NodeState = NodeState.UP
    devices: tuple[Device, ...] = ()
