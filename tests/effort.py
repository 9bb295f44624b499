"""How much the longest tests do: all in ``make test-long``, which sets ``RANKD_TEST_LONG``, else less."""

import os

IS_LONG = bool(os.environ.get("RANKD_TEST_LONG"))


def effort(usual: int, long: int) -> int:
    """How many examples, kills or seconds a test takes: ``usual``, or ``long`` in ``make test-long``."""
    return long if IS_LONG else usual
