"""Whether the keeper still answers: the agent pings it, one ping at a time. Pure."""

from __future__ import annotations

import msgspec

LOOK_EVERY_S = 2.0
SILENT_S = 30.0
"""A keeper that does not answer a ping for this long is stopped, or hangs."""


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a keeper. ``asked``: a ping has not been answered for ``silent_s`` s. Times are monotonic."""

    pid: int
    looked_at: float
    asked: bool = False
    silent_s: float = 0.0


def look(pulse: Pulse, now: float, every_s: float) -> tuple[Pulse, bool]:
    """Look at the keeper again, as is done every ``every_s`` seconds; the bool says whether to send a ping now.

    Time in which the agent itself did not run counts for at most two looks.

    >>> pulse, ping = look(Pulse(pid=7, looked_at=0.0), 2.0, 2.0)
    >>> ping, pulse.silent_s
    (True, 0.0)
    >>> pulse, ping = look(pulse, 900.0, 2.0)
    >>> ping, pulse.silent_s
    (False, 4.0)
    """
    passed_s = min(now - pulse.looked_at, 2 * every_s) if pulse.asked else 0.0
    seen = msgspec.structs.replace(pulse, looked_at=now, asked=True, silent_s=pulse.silent_s + passed_s)
    return seen, not pulse.asked


def heard(pulse: Pulse) -> Pulse:
    """Note that the keeper has sent something.

    >>> heard(Pulse(pid=7, looked_at=0.0, asked=True, silent_s=40.0))
    Pulse(pid=7, looked_at=0.0, asked=False, silent_s=0.0)
    """
    return msgspec.structs.replace(pulse, asked=False, silent_s=0.0)


def unable(pulse: Pulse, silent_s: float) -> str | None:
    """Why the node can't run jobs; None if its keeper answered within ``silent_s``.

    >>> unable(Pulse(pid=7, looked_at=0.0, asked=True, silent_s=40.0), 30.0)
    'keeper 7 does not answer: it is stopped or hangs'
    """
    return f"keeper {pulse.pid} does not answer: it is stopped or hangs" if pulse.silent_s >= silent_s else None
