"""The limits of how different pending jobs may be, on a running intake: each way in, and after a restart."""

from __future__ import annotations

import asyncio

import builder
import pytest
from integration.intake_stage import an_intake

SETTINGS = {
    "max_shapes_per_user": 4,
    "max_constraints_per_user": 3,
    "max_applications_per_user": 3,
    "max_pending_per_account": 30,
}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.fixture
def limited(broker, tmp_path):
    rule = "\n".join(['"default"', *(f"{name} = {most}" for name, most in SETTINGS.items())])
    return lambda: an_intake(broker, tmp_path, unknown_association=rule)


def job(vcore: int = 1, **fields) -> dict[str, object]:
    return {"command": ["true"], "resources": {"vcore": vcore}, **fields}


async def test_shapes_are_limited_for_each_way_in_and_after_a_restart(limited):
    async with limited() as stage:
        batch = await stage.do("job.submit", {"jobs": [job(vcore) for vcore in range(1, 7)]})
        assert [entry["index"] for entry in batch.body["accepted"]] == [0, 1, 2, 3]
        assert {entry["code"] for entry in batch.body["rejected"]} == {"too_many_shapes"}
        assert "admission.max_shapes_per_user" in batch.body["rejected"][0]["message"]
    async with limited() as stage:
        refused = await stage.do("job.submit", job(9))
        assert (refused.status, refused.body["code"]) == (429, "too_many_shapes")
        assert (await stage.do("job.submit", job(2))).status is None
        whole = await stage.do("job.submit", {"jobs": [job(2), job(9)], "atomic": True})
        assert (whole.status, whole.body["code"]) == (429, "too_many_shapes")
        update = await stage.do("job.update", {"id": 1, "resources": {"vcore": 9}})
        assert (update.status, update.body["code"]) == (429, "too_many_shapes")
        assert (await stage.do("job.update", {"id": 1, "resources": {"vcore": 2}})).status is None
        assert (await stage.do("job.submit", job(9), "bob")).status is None


async def test_a_repeated_submission_is_answered_also_at_the_limit(limited):
    async with limited() as stage:
        first = await stage.do("job.submit", job(9, key="k"))
        await stage.do("job.cancel", {"id": first.body["id"]})
        await stage.do("job.submit", {"jobs": [job(vcore) for vcore in range(1, 5)]})
        await asyncio.sleep(0)
        assert (await stage.do("job.submit", job(9, key="k"))).body == first.body


@pytest.mark.parametrize("field", ["constraints", "application"])
async def test_constraints_and_applications_are_limited(limited, field):
    async with limited() as stage:
        batch = await stage.do("job.submit", {"jobs": [job(**{field: f"x{at}"}) for at in range(5)]})
        codes = [entry["code"] for entry in batch.body["rejected"]]
        assert codes == [f"too_many_{field.removesuffix('s')}s"] * 2


async def test_what_ended_makes_room(limited):
    async with limited() as stage:
        ids = (await stage.do("job.submit", {"jobs": [job(vcore) for vcore in (1, 2, 3, 4, 4)]})).body["accepted"]
        assert (await stage.do("job.submit", job(9))).status == 429
        await stage.do("job.cancel", {"id": ids[0]["id"]})
        while (await stage.do("job.submit", job(9))).status is not None:
            await asyncio.sleep(0.1)


async def test_an_account_has_a_limit(limited):
    async with limited() as stage:
        for user in ("alice", "bob"):
            assert len((await stage.do("job.submit", {"jobs": [job()] * 14}, user)).body["accepted"]) == 14
        batch = await stage.do("job.submit", {"jobs": [job()] * 3})
        assert [len(batch.body[name]) for name in ("accepted", "rejected")] == [2, 1]
        assert "account 'physics' has 30 pending jobs" in batch.body["rejected"][0]["message"]
