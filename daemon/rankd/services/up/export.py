"""What ``rankd up`` exports: the figures of the site from the records, and those that its services answer."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from pathlib import Path

from rankd.bus.connection import Bus
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.metric.site import RecordFigures, ServiceFigures
from rankd.wire.subject import MEASURED


def export(exported: Exported, database: Path | str, directory: str, bus: Bus, stack: AsyncExitStack) -> None:
    """Export all of it. The agents of this machine have their own accounts: they export with ``rankd agent``."""
    records = RecordFigures(database, time.time)
    stack.callback(records.close)
    exported.bus(bus)
    exported.disk("directory", directory)
    exported.collect(records.read)
    exported.collect(ServiceFigures(bus, MEASURED).read)
