"""What other intakes have written beside this one: seen at the beginning of each transaction, before it writes.

All writers take turns. So what this intake knows is exact from the look at the beginning of its transaction until its
commit, however long it was away before: paused, cut off, or just slow.
"""

from __future__ import annotations

from typing import Any

from rankd.services.intake.job_limit import JobLimits
from rankd.store.engine.connection import Connection, Row
from rankd.store.engine.group_commit import Behind, Watch
from rankd.store.feed.new_pending import NEWEST, Newest, pending_between


class Beside(Watch):
    """Compares the catalog's version, and counts the pending jobs of others.

    ``changes`` is the number of times that others have changed the catalog: what is admitted under one number may be
    stored while it is the same.
    """

    def __init__(self, limits: JobLimits) -> None:
        self.query = NEWEST
        self.known = Newest(0, 0)
        self.changes = 0
        self._limits = limits
        self._found: Newest | None = None

    def begin(self, connection: Connection, found: Row[Any]) -> None:
        """See :class:`.Watch`."""
        newest = Newest._make(found)
        self._limits.notice(pending_between(connection, self.known.event, newest.event))
        self._found = newest  # only now: if the jobs could not be read, the next transaction reads them
        if newest.version != self.known.version:
            raise Behind

    def settle(self, left: Row[Any] | None) -> None:
        """See :class:`.Watch`: what this transaction has written is counted already."""
        if self._found is not None:
            self._limits.settle()
            self.known = self.known._replace(event=max(self.known.event, self._found.event))
        if left is not None:
            self.known = Newest._make(left)
        self._found = None

    def adopt(self, version: int) -> None:
        """The catalog of this version is used now."""
        if version != self.known.version:
            self.known, self.changes = self.known._replace(version=version), self.changes + 1
