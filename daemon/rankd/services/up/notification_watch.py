"""Whether the configuration in force allows notifications: most sites allow none, and need no notifier."""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing
from functools import partial
from pathlib import Path

from rankd.config.configuration import read_configuration
from rankd.core.errors import RankdError
from rankd.store.engine.reading import ReadError, open_for_reading, tuples
from rankd.store.record.configuration import newest_configuration, recorded

log = logging.getLogger("rankd.up")

LOOK_EVERY_S = 2.0


class NotificationWatch:
    """Looks at the configuration that the intake has recorded last, again only if it is another one."""

    def __init__(self, database: Path | str) -> None:
        self._database = database
        self._seen: int | None = None

    async def until_allowed(self) -> None:
        """Return once a configuration in force allows notifications."""
        while not await asyncio.to_thread(self.allows):  # noqa: ASYNC110 - another process records it
            await asyncio.sleep(LOOK_EVERY_S)
        log.info("notifications are allowed: starting the notifier")

    def allows(self) -> bool:
        """Whether a new configuration allows notifications. What can't be read now is read the next time."""
        try:
            with closing(open_for_reading(self._database)) as connection:
                query = partial(tuples, connection)
                newest = newest_configuration(query)
                if newest is None or newest == self._seen:
                    return False
                found = recorded(query, newest)
            self._seen = newest
            if found is None:
                return False
            return bool(read_configuration(found.directory, found.files).settings.notifications.allow)
        except (RankdError, ReadError) as error:
            log.debug("can't see whether notifications are allowed: %s", error)
            return False
