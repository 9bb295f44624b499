"""Prometheus' own checks, by Debian's promtool.

Without it these tests are skipped, with one line that says so. With ``RANKD_TEST_PROMTOOL=1``, as in CI, they fail.
"""

import os
import subprocess
from pathlib import Path

import pytest

PROMTOOL = Path("/usr/bin/promtool")


def promtool(*words: str, given: str | None = None, cwd: Path | None = None) -> None:
    """Run a check, which has to succeed and to complain about nothing."""
    if not PROMTOOL.exists():
        message = "no promtool at /usr/bin/promtool: apt-get install prometheus"
        assert not os.environ.get("RANKD_TEST_PROMTOOL"), message
        pytest.skip(message)
    done = subprocess.run([PROMTOOL, *words], input=given, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
