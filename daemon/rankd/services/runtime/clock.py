"""The clock of a service. Its ``run()`` takes it as an argument, so that a test can use its own clock."""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], float]
"""Returns the time in UTC seconds. Services use :func:`time.time`."""
