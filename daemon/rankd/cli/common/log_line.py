"""A service's log: one line per message, even if names of users or nodes contain line breaks."""

from __future__ import annotations

import logging
import time

from rankd.core.printable import printable


class LogLine(logging.Formatter):
    """Time in UTC, level, name and message, without control characters; a traceback keeps its lines."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line of the message itself."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        """The traceback, with its line breaks."""
        return printable(super().formatException(ei), keep="\n")  # type: ignore[arg-type]
