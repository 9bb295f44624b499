"""Stateaware: like fifo, but only one new application at a time may start.

Running applications always pass. Of the starting applications only the oldest passes, with or without work. If none is
starting, one accepted application with work passes: the oldest one. If priority counts, it is the one with the highest
priority, and among equals the oldest. Source: YuniKorn's StateAwarePolicy (``application.sort.policy: stateaware``, up
to 1.5), "Sorting Policies".

>>> waiting = [Candidate(state="accepted", priority=5), Candidate(state="accepted", priority=9)]
>>> Stateaware().let_in(waiting, by_priority=False), Stateaware().let_in(waiting, by_priority=True)
([0], [1])
>>> Stateaware().let_in([*waiting, Candidate(state="starting", priority=None)], by_priority=True)
[2]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rankd.core.model.application import ApplicationState
from rankd.core.ranking.application_sort import Candidate, Shares, SortKey


class Stateaware:
    """Order by creation time, ascending, with one new application at a time."""

    name = "stateaware"
    goes_by_usage = False
    holds_back = True

    def key(self, shares: Shares) -> SortKey:  # noqa: ARG002 - the protocol's
        """The same key for all applications."""
        return ()

    def let_in(self, candidates: Sequence[Candidate], *, by_priority: bool) -> Collection[int]:
        """At most one candidate."""
        for place, candidate in enumerate(candidates):
            if candidate.state == ApplicationState.STARTING:
                return [place]
        accepted = [
            (0 if not by_priority else -candidate.priority, place)
            for place, candidate in enumerate(candidates)
            if candidate.state == ApplicationState.ACCEPTED and candidate.priority is not None
        ]
        return [min(accepted)[1]] if accepted else []
