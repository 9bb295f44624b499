"""Stateaware: as fifo, behind a filter that lets in one new application at a time.

All that run pass; of those that start the oldest, with work or without; if none starts, one accepted with work:
the oldest, or where priority counts the one of the highest priority, the oldest of several. Source: YuniKorn's
StateAwarePolicy (``application.sort.policy: stateaware``, up to 1.5), "Sorting Policies".

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
    """Creation time ascending, one new application at a time."""

    name = "stateaware"
    goes_by_usage = False
    holds_back = True

    def key(self, shares: Shares) -> SortKey:  # noqa: ARG002 - the protocol's
        """The same for all."""
        return ()

    def let_in(self, candidates: Sequence[Candidate], *, by_priority: bool) -> Collection[int]:
        """At most one."""
        for place, candidate in enumerate(candidates):
            if candidate.state == ApplicationState.STARTING:
                return [place]
        accepted = [
            (0 if not by_priority else -candidate.priority, place)
            for place, candidate in enumerate(candidates)
            if candidate.state == ApplicationState.ACCEPTED and candidate.priority is not None
        ]
        return [min(accepted)[1]] if accepted else []
