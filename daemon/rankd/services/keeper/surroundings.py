"""What all jobs of a keeper share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any

import msgspec

from rankd.services.keeper.cgroup import ControlGroups
from rankd.services.keeper.message import StepHappened
from rankd.services.keeper.spawn import Helper
from rankd.services.keeper.state import AgentState
from rankd.services.runtime.clock import Clock
from rankd.wire.message import Report


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What all jobs of a node share. ``tell`` sends a report to the agent, ``tell_of_step`` what happened to a step.

    ``keep`` runs something beside the jobs, which the keeper waits for before it ends.
    """

    state: AgentState
    groups: ControlGroups
    helper: Helper
    threads: Executor
    tell: Callable[[Report], None]
    tell_of_step: Callable[[StepHappened], None]
    keep: Callable[[Coroutine[Any, Any, None]], None]
    clock: Clock
