"""When notifications are sent: the turn of each user's next one, the pauses after failures, and when it is given up."""

from __future__ import annotations

import msgspec

HOUR_S = 3_600.0


class Pauses(msgspec.Struct, frozen=True, kw_only=True):
    """The pause after the first failure, which doubles after each further one, and the longest."""

    first_s: float = 30.0
    longest_s: float = HOUR_S


def pause_after(attempts: int, pauses: Pauses) -> float:
    """The pause after this many failed attempts.

    >>> [pause_after(n, Pauses()) for n in (1, 2, 3, 20, 10_000)]
    [30.0, 60.0, 120.0, 3600.0, 3600.0]
    """
    doublings = min(attempts - 1, 60)
    return float(min(pauses.first_s * 2**doublings, pauses.longest_s))


def next_slot(last_slot: float | None, now: float, per_hour: int) -> float:
    """The slot of a user's next notification; ``last_slot`` is that of the one before.

    Slots of a user are ``1 / per_hour`` hours apart. A notification may be sent an hour before its slot, so that
    ``per_hour`` of them are sent at once after a pause.

    >>> next_slot(None, 1000.0, 60), next_slot(5000.0, 1000.0, 60), next_slot(5000.0, 9000.0, 60)
    (1060.0, 5060.0, 9060.0)
    """
    return max(now, last_slot or 0.0) + HOUR_S / per_hour


def send_at(slot: float, now: float) -> float:
    """When a notification with this slot may be sent.

    >>> send_at(1060.0, 1000.0), send_at(5000.0, 1000.0)
    (1000.0, 1400.0)
    """
    return max(now, slot - HOUR_S)


def is_given_up(first_at: float, next_at: float, retry_for_s: float) -> bool:
    """Whether a notification that is to be sent at ``next_at`` is too late.

    >>> is_given_up(0.0, 86_399.0, 86_400.0), is_given_up(0.0, 86_401.0, 86_400.0)
    (False, True)
    """
    return next_at - first_at > retry_for_s
