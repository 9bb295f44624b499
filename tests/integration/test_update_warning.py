"""``job.update`` to something that no node could hold."""

from __future__ import annotations

import builder
import pytest
from integration.intake_stage import an_intake, joined


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def test_an_update_warns_as_a_submission_does(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await joined(stage, "n1")
        job = await stage.submit()
        large = {"resources": {"vcore": 100_000}}
        said = (await stage.do("job.submit", {"command": ["true"], **large})).body["warning"]
        for more in ({"dry_run": True}, {}):
            updated = (await stage.do("job.update", {"id": job, **large, **more})).body
            assert updated == {"done": [job], "failed": [], "warning": f"job {job}: {said}"}
        assert "warning" not in (await stage.do("job.update", {"id": job, "comment": "x"})).body
