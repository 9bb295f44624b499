"""Carrying out operations one step after the other, in the caller's thread."""

from __future__ import annotations

import time
from typing import TypeVar

from rankd.client.channel import Channel
from rankd.client.step import Ask, Pause, Plan, Room, Step, next_step
from rankd.core.errors import RankdError

T = TypeVar("T")


def carry_out(plan: Plan[T], channel: Channel) -> T:
    """The result of an operation.

    Raises:
        RankdError: as the operation says.
    """
    result: object = None
    error: RankdError | None = None
    while True:
        try:
            step = next_step(plan, result, error)
        except StopIteration as done:
            value: T = done.value
            return value
        try:
            result, error = _done(step, channel), None
        except RankdError as raised:
            result, error = None, raised


def _done(step: Step, channel: Channel) -> object:
    if isinstance(step, Ask):
        return channel.request(step.verb, step.payload, step.kind, timeout_s=step.timeout_s)
    if isinstance(step, Pause):
        time.sleep(step.polled_s)
    return channel.largest if isinstance(step, Room) else None
