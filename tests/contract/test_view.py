"""The views give the documented columns, and rows, on every engine."""

import pytest
from contract.world import BETWEEN, BLOCKED, COLUMNS, DONE, FIRST, GONE, HELD, LATE, RUNNING, SECOND, WEIGHTS
from sqlalchemy import inspect
from unit.test_docs import default_factor_columns, documented_columns

from rankd.store.schema.migration import replace_views
from rankd.store.schema.view import factor_views, fixed_views

VIEWS = sorted({**fixed_views(), **factor_views(COLUMNS)})
BY_FACTOR = {"job_priority", "queue_head"}
"""Views with columns for each factor; the documentation shows those of the default weights."""


def factor_columns(factors):
    return {column for factor in factors for column in (factor.value_column, f"{factor.name}_points")}


@pytest.mark.parametrize("view", VIEWS)
async def test_a_view_has_rows_with_the_documented_columns(world, view):
    rows = await world.rows(view)
    assert rows, f"the world of the contract suite has no row for the view {view}: let fill_world write one"
    documented, found = set(documented_columns()[view]), set(rows[0])
    if view in BY_FACTOR:
        documented = documented - factor_columns(default_factor_columns()) | factor_columns(COLUMNS)
    assert found == documented


@pytest.mark.parametrize("view", sorted(fixed_views()))
async def test_a_fixed_view_is_empty_before_the_first_row(store, view):
    assert await store.rows(view) == []


async def test_views_can_be_replaced_in_one_transaction(world):
    await world.write(replace_views, factor_views(COLUMNS[:1]))
    [row] = [row for row in await world.rows("job_priority") if row["id"] == FIRST]
    assert row["fairshare"] == 1.0
    assert "luck" not in row


async def test_every_view_is_in_the_schema(world):
    def names(connection):
        return set(inspect(connection).get_view_names())

    assert await world.read(names) == set(VIEWS)


async def test_the_ranking_holds_the_full_generation_and_its_delta(world):
    rows = sorted(await world.rows("ranking"), key=lambda row: row["rank"])
    assert [row["job_id"] for row in rows] == [FIRST, BETWEEN, SECOND]
    assert {row["generation"] for row in rows} == {2}
    head = await world.rows("queue_head")
    assert [row["id"] for row in sorted(head, key=lambda row: row["rank"])] == [FIRST, BETWEEN, SECOND]


async def test_a_breakdown_adds_up(world):
    rows = {row["id"]: row for row in await world.rows("job_priority")}
    assert set(rows) == {FIRST, SECOND, HELD, BLOCKED, BETWEEN, LATE}
    first = rows[FIRST]
    points = sum(first[f"{name}_points"] for name in WEIGHTS)
    assert points == first["points_sum"]
    assert first["class_value"] + int(points) == first["priority"]
    assert rows[LATE]["override"] == "initial"
    factors = await world.rows("job_factor", job_id=FIRST)
    assert {row["factor"]: row["points"] for row in factors} == {name: first[f"{name}_points"] for name in WEIGHTS}


async def test_the_reason_why_a_job_waits(world):
    rows = {row["id"]: row for row in await world.rows("job")}
    assert (rows[SECOND]["reason"], rows[SECOND]["reason_fact"]) == ("resources", "too few cores")
    assert rows[HELD]["reason"] == "held"
    assert (rows[BLOCKED]["reason"], rows[BLOCKED]["reason_fact"]) == (
        "dependency", f"afterok of job {RUNNING} (running)",
    )  # fmt: skip
    assert rows[DONE]["reason"] is None


async def test_measured_use_and_daily_sums(world):
    [done] = await world.rows("job", id=DONE)
    assert (done["state"], done["max_rss_bytes"], done["cpu_s"], done["measured"]) == (
        "completed",
        2**20,
        3.0,
        "cgroup",
    )
    assert await world.rows("job", id=GONE) == []
    [day] = await world.rows("usage_day")
    assert (day["user"], day["account"], day["jobs"], day["completed"]) == ("bob", "physics", 1, 1)
    assert (day["core_s"], day["gpu_s"]) == (5.0, 5.0)
