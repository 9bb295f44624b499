"""How the tasks of recorded steps have ended on this node: what the intake is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rankd.core.session.step import NOT_STARTED, StepEnd
from rankd.services.keeper.message import StepHappened
from rankd.services.runtime.clock import Clock


class Recorded(NamedTuple):
    """A task of a step, as the intake has recorded it."""

    allocation: int
    number: int
    task: int


class StepReports:
    """``add`` reports an end. One that is reported twice counts once."""

    def __init__(self, clock: Clock, add: Callable[[StepEnd], None]) -> None:
        self._clock = clock
        self._add = add

    def happened(self, told: StepHappened, of: Recorded | None) -> None:
        """The keeper says that a step has ended. ``of``: its task, if a session knows it.

        A keeper of an older version does not say which task it was.
        """
        if told.kind != "ended":
            return
        if told.number is not None:
            of = Recorded(told.allocation, told.number, told.task)
        if of is not None:
            self._add(
                StepEnd(
                    allocation=of.allocation,
                    number=of.number,
                    task=of.task,
                    at=self._clock() if told.at is None else told.at,
                    exit_status=told.exit_status,
                    signal=told.signal,
                    cause=None if told.message is None else NOT_STARTED,
                )
            )

    def over(self, of: Recorded, cause: str) -> None:
        """A task has ended without an exit status."""
        end = StepEnd(allocation=of.allocation, number=of.number, task=of.task, at=self._clock(), cause=cause)
        self._add(end)
