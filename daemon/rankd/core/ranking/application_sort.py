"""What a plugin of the entry-point group ``rankd.application_sort`` implements: the order of a leaf's applications.

A leaf queue names its policy (``application.sort.policy``). A policy may do two things:

- It may compare applications by their usage. This key counts after the priority (if that counts) and before the
  creation time. It is computed at the snapshot, and during a scheduling cycle again after each placed job.
- It may hold back applications that do not run yet. Their jobs have no rank until the policy admits them. This is
  decided once, at the snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

import msgspec

Shares = tuple[float, ...]
"""The shares of its leaf that an application uses: one for each type that it uses, the largest first."""

SortKey = tuple[float, ...]
"""A key that is compared like a tuple. The smaller key goes first. It must not contain NaN."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A named application that does not run yet, or does not run any more.

    ``state`` is one of :class:`.ApplicationState`; in ``rankd evaluate`` it may be another state of YuniKorn's.
    ``priority`` is the highest of its pending jobs, or None if it has no pending work.
    """

    state: str
    priority: int | None


@runtime_checkable
class ApplicationSortPolicy(Protocol):
    """An order of applications. It is constructed without arguments, once per service.

    Several threads use it, so it must not keep state. ``name`` is the name of its entry point. ``goes_by_usage``:
    whether :meth:`key` is used; otherwise the order is by creation time. ``holds_back``: whether :meth:`let_in` is
    used; otherwise all applications pass.
    """

    name: str
    goes_by_usage: bool
    holds_back: bool

    def key(self, shares: Shares) -> SortKey:
        """The key that is compared before the creation time. Pure. ``shares`` is ``()`` if nothing is used.

        A job that is its own application counts as using nothing, even while it runs.
        """

    def let_in(self, candidates: Sequence[Candidate], *, by_priority: bool) -> Collection[int]:
        """The indices in ``candidates`` of the applications that pass. ``candidates`` has the oldest first. Pure.

        Running applications, and jobs that are their own application, always pass and are not in ``candidates``.
        ``by_priority``: whether priority counts between the applications of the leaf.
        """
