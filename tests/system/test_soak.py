"""Most of a minute of faults with a fixed seed; `make soak` runs longer ones.

In a process of its own: nats-py leaves sockets to the garbage collector when it reconnects to a broker that is cut off.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak" / "run.py"
SECONDS = "50"
SEED = "20"


@pytest.mark.timeout(900)
def test_a_workload_under_faults_loses_nothing_and_starts_nothing_twice(tmp_path):
    done = subprocess.run(
        [sys.executable, SOAK, SECONDS, SEED, tmp_path / "soak"], stdout=subprocess.PIPE, text=True, check=False
    )
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert report["wrong"] == [], report
    assert done.returncode == 0
    assert report["faults"] > 30
    assert report["reloads"]["taken"] > 0
    assert report["retried"] > 0
    assert report["with_devices"] > 10
    assert sum(report["sessions"].values()) > 5
