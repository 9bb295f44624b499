"""Faults of a site with PostgreSQL, three brokers and standbys; `make soak-cluster` runs longer ones.

In a process of its own, as the other soak.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak" / "run_cluster.py"
SECONDS = "16"
SEED = "132"
"""Within these seconds, the draws of this seed have all that the last lines of the test name."""


@pytest.mark.timeout(900)
def test_a_site_with_standbys_loses_nothing_and_starts_nothing_twice_under_faults(tmp_path):
    done = subprocess.run(
        [sys.executable, SOAK, SECONDS, SEED, tmp_path / "soak"], stdout=subprocess.PIPE, text=True, check=False
    )
    report = json.loads(done.stdout[done.stdout.index("{") :])
    assert report["wrong"] == [], report
    assert done.returncode == 0
    assert report["faults"] > 8
    assert report["submitted"] > 0
    assert report["promotions"] == 1
    assert {"kill head-2", "cut nats-1 nats-2"} <= set(report["by_kind"])
