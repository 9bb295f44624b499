"""The clock of a service. Its ``run()`` passes it in once, so that a test can pass a clock of its own."""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], float]
"""Returns the time in UTC seconds. Services use :func:`time.time`."""
