"""Which queues an asker administers: those whose list ``adminacl``, or that of a queue above, has the asker."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from rankd.core.admission.queue_entry import Key, QueueEntry


class AdministeredQueues(NamedTuple):
    """The queues of the configuration in force, and the asker with the present groups."""

    queues: Mapping[Key, QueueEntry] = {}
    user: str = ""
    groups: Collection[str] = ()

    def has(self, partition: str, path: str) -> bool:
        """Whether the asker administers this queue. Nobody administers a queue that was removed."""
        entry = self.queues.get((partition, path.lower()))
        return entry is not None and self._allows(entry)

    def is_any(self) -> bool:
        """Whether there is such a queue. Looks at all queues."""
        return any(self._allows(entry) for entry in self.queues.values())

    def _allows(self, entry: QueueEntry) -> bool:
        return entry.admins.allows(self.user, self.groups)
