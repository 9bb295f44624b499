"""A minute of faults with a fixed seed; `make soak` runs longer ones."""

from __future__ import annotations

import pytest
from soak.run import soak

SECONDS = 60
SEED = 20


@pytest.mark.timeout(400)
async def test_a_workload_under_faults_loses_nothing_and_starts_nothing_twice(tmp_path):
    report = await soak(tmp_path / "soak", SECONDS, SEED)
    assert report["wrong"] == [], report
    assert report["faults"] > 30
