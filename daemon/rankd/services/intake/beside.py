"""What other intakes have written beside this one: seen at the beginning of each transaction, before it writes.

All writers take turns. So what this intake knows is exact from the look at the beginning of its transaction until its
commit, however long it was away before: paused, cut off, or just slow.
"""

from __future__ import annotations

from rankd.services.intake.job_limit import JobLimits
from rankd.store.engine.connection import Connection
from rankd.store.engine.group_commit import Behind, Watch
from rankd.store.feed.new_pending import Newest, newest, pending_since


class Beside(Watch):
    """Compares the catalog's version, and counts the pending jobs of others.

    ``changes`` is the number of times that others have changed the catalog: what is admitted under one number may be
    stored while it is the same.
    """

    def __init__(self, limits: JobLimits) -> None:
        self.known = Newest(0, 0)
        self.changes = 0
        self._limits = limits
        self._found: Newest | None = None
        self._after: Newest | None = None

    def begin(self, connection: Connection) -> None:
        """See :class:`.Watch`."""
        self._after = None
        found = newest(connection)
        is_new = found.event > self.known.event
        self._limits.notice(pending_since(connection, self.known.event) if is_new else ())
        self._found = found  # only now: if the jobs could not be read, the next transaction reads them
        if found.version != self.known.version:
            raise Behind

    def end(self, connection: Connection) -> None:
        """See :class:`.Watch`: what this transaction has written is counted already."""
        self._after = newest(connection)

    def settle(self, *, committed: bool) -> None:
        """See :class:`.Watch`."""
        if self._found is not None:
            self._limits.settle()
            self.known = self.known._replace(event=max(self.known.event, self._found.event))
        if committed and self._after is not None:
            self.known = self._after
        self._found = None

    def adopt(self, version: int) -> None:
        """The catalog of this version is used now."""
        if version != self.known.version:
            self.known, self.changes = self.known._replace(version=version), self.changes + 1
