"""Operations as steps: what has to be asked or waited for, apart from how.

An operation is a generator. It yields a step, gets the step's result, and returns the operation's result. So each
operation is written once, for callers that block and for callers of asyncio. Who carries it out is a channel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from rankd.core.errors import RankdError, Unavailable

T = TypeVar("T")

TIMEOUT_S = 10.0
"""Without an answer for this long, a request is repeated if that can't change its outcome."""
LEAST_TIMEOUT_S = 0.05
RETRY_PAUSE_S = 0.5
OUTCOME_UNKNOWN = frozenset({"no_answer", "stopping", "connection_lost"})
"""The codes of errors after which the request may have been carried out."""
UNREADABLE_ANSWER = "unreadable_answer"
"""The code of an answer that can't be decoded. That of the same request could not be decoded either."""


class Ask(NamedTuple):
    """Send a request. The result is the answer, decoded as ``kind``."""

    verb: str
    payload: bytes
    kind: Any
    timeout_s: float = TIMEOUT_S


class Pause(NamedTuple):
    """Wait for ``polled_s``; where the broker tells of news, until there are some, or for ``hinted_s``."""

    polled_s: float
    hinted_s: float


class Listen(NamedTuple):
    """Begin to listen for news, where the broker tells of them."""


class Room(NamedTuple):
    """Find out how many bytes a request may have, which is the result."""


Step = Ask | Pause | Listen | Room
Plan = Generator[Step, Any, T]


class Effort(NamedTuple):
    """How long an operation repeats requests that were not answered. ``clock``: in seconds, never set back."""

    retry_for_s: float
    clock: Callable[[], float] = time.monotonic


def answer(ask: Ask, effort: Effort, *, changes: bool = False, until: float | None = None) -> Plan[Any]:
    """Ask, and again while nobody answers or there is no room, for ``retry_for_s`` or until ``until``.

    ``changes``: the request changes something and has no key. It is repeated only if it was certainly not carried out.

    Raises:
        RankdError: the refusal, or the last error; at once ``unexpected_answer``, if the answer can't be decoded.
    """
    end = effort.clock() + effort.retry_for_s if until is None else until
    left = ask.timeout_s if until is None else until - effort.clock()
    while True:
        try:
            return (yield ask._replace(timeout_s=max(min(ask.timeout_s, left), LEAST_TIMEOUT_S)))
        except Unavailable as error:
            if error.code == UNREADABLE_ANSWER:
                raise RankdError("unexpected_answer", error.message) from error
            if (changes and error.code in OUTCOME_UNKNOWN) or effort.clock() + RETRY_PAUSE_S >= end:
                raise
        yield Pause(RETRY_PAUSE_S, RETRY_PAUSE_S)
        left = end - effort.clock()


def next_step(plan: Plan[T], result: object, error: RankdError | None) -> Step:
    """Give an operation the result of its step, or the error of it; returns its next step.

    Raises:
        StopIteration: the operation is done. The exception has its result.
    """
    return plan.send(result) if error is None else plan.throw(error)
