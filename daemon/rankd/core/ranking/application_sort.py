"""What a plugin of the entry-point group ``rankd.application_sort`` implements: the order of a leaf's applications.

A leaf queue names its policy (``application.sort.policy``). A policy may do two things. It may compare applications
by what they use, behind their priority where that counts and before their creation time; such keys are taken at
the snapshot, and while a scheduling cycle places jobs again after each one. And it may hold applications back that
do not run yet: their jobs have no rank until it lets them in; that is asked once, at the snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

import msgspec

Shares = tuple[float, ...]
"""What an application uses of its leaf: the share of each type of which it uses any, largest first."""

SortKey = tuple[float, ...]
"""Compared as tuples are; smaller goes first. No NaN."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A named application that does not run yet, or not any more.

    ``state`` is one of :class:`.ApplicationState`, in ``rankd evaluate`` also another of YuniKorn's. ``priority`` is
    the highest of its pending jobs; None: it has no pending work.
    """

    state: str
    priority: int | None


@runtime_checkable
class ApplicationSortPolicy(Protocol):
    """An order of applications. Built without arguments, once per service; used by several threads: keep no state.

    ``name`` is that of the entry point. ``goes_by_usage``: whether :meth:`key` counts; else applications go by
    creation time. ``holds_back``: whether :meth:`let_in` is asked; else all pass.
    """

    name: str
    goes_by_usage: bool
    holds_back: bool

    def key(self, shares: Shares) -> SortKey:
        """What is compared before creation time. Pure; asked with ``()`` for an application that uses nothing.

        A job that is its own application uses nothing, also once it runs.
        """

    def let_in(self, candidates: Sequence[Candidate], *, by_priority: bool) -> Collection[int]:
        """The places in ``candidates``, which are the oldest first, of those that pass. Pure.

        Applications that run, and jobs that are their own application, always pass and are not among these.
        ``by_priority``: whether priority counts between the leaf's applications.
        """
