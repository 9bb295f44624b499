"""What is wrong with a stream of a cluster, and what to do. Pure: it is given what the brokers said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from rankd.wire.diag import FollowerDiag, StreamDiag

BEHIND_FOR_S = 10.0
"""A copy may be behind for so many seconds, since it has to catch up after each start of its broker."""
SILENT_S = 10.0
"""Brokers of a cluster hear of each other every second. The server itself says after 3 minutes that one is away, and a
new leader that never heard of it says that it is behind."""


class LagClock:
    """Since when each copy of each stream has been behind. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def note(self, stream: str, followers: Iterable[FollowerDiag], now: float) -> list[FollowerDiag]:
        """The same copies, each with the seconds for which it has been behind."""
        noted = []
        for one in followers:
            place = (stream, one.name)
            if one.is_current:
                self._since.pop(place, None)
                noted.append(one)
                continue
            since = self._since.setdefault(place, now)
            noted.append(msgspec.structs.replace(one, behind_for_s=now - since))
        return noted


def alarms(of: StreamDiag) -> list[str]:
    """Each fault in a sentence: what happened, to which stream, and what to do."""
    return list(_alarms(of))


def _alarms(of: StreamDiag) -> Iterator[str]:
    if of.is_missing:
        yield f"the stream {of.name} is missing: rankd streams rebuild makes it from the database"
        return
    if of.leader is None:
        yield (
            f"the stream {of.name} has no leader, so nothing can be stored in it: start the brokers that are away; if"
            " they are gone for good, rankd streams rebuild makes it from the database"
        )
        return
    for one in of.followers:
        if one.silent_s >= SILENT_S or one.behind_for_s >= BEHIND_FOR_S:
            yield (
                f"the copy of {of.name} on broker {one.name} is away or behind, for"
                f" {max(one.silent_s, one.behind_for_s):.0f} s and by {one.behind} operations: start that broker, or"
                " look at its disk and network; if it is gone for good, remove it from the cluster (nats server cluster"
                " peer-remove), and another broker gets a copy"
            )
    if of.copies != of.wanted:
        yield (
            f"the stream {of.name} has {of.copies} of the copies that replicas = {of.wanted} asks for: rankd streams"
            " rebuild makes it anew with as many"
        )
