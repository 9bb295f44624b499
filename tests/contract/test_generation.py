"""Generations: written in stages, visible as a whole, pruned; and the values that they store."""

import random

import numpy as np
from builder import NOW
from contract.world import BETWEEN, FIRST, FULL, SECOND, WEIGHTS, header, store_generation

from rankd.store.feed.factor_value import stored_values
from rankd.store.record.delta import value_stage
from rankd.store.record.generation import (
    Settlement,
    head_stage,
    insert,
    newest_base,
    newest_number,
    publish,
    queue_stage,
    together,
)
from rankd.store.record.given_value import given_values
from rankd.store.record.history import Named, named, prune_events, prune_jobs
from rankd.store.record.retention import prune, stale_tables


async def test_nothing_of_a_generation_is_visible_before_it_is_published(store):
    jobs = await store.submit("alice", "bob")
    assert (await store.read(newest_number), await store.read(newest_base)) == (0, 0)
    await store_generation(store, 1, jobs)
    await store.write(insert, "ranking_chunks", [(2, 0, 1, "[1]", b"00000000001")])
    assert {row["job_id"] for row in await store.rows("ranking")} == set(jobs)
    assert (await store.read(newest_number), await store.read(newest_base)) == (1, 1)


async def test_a_delta_stands_on_its_full_generation(world):
    assert (await world.read(newest_number), await world.read(newest_base)) == (2, FULL)
    assert {row["number"]: row["kind"] for row in await world.rows("generation")} == {1: "full", 2: "delta"}


async def test_a_settlement_moves_usage_with_the_generation(world):
    [bob] = await world.rows("associations", user="bob")
    assert (bob["usage"], bob["usage_at"]) == (10.0, NOW)
    stage = publish(header(3, FULL, 0, 2), Settlement(associations=[(77.0, NOW + 5, bob["id"])], allocations=[3]))
    await world.write(stage)
    [bob] = await world.rows("associations", user="bob")
    [allocation] = await world.rows("allocations", id=3)
    assert (bob["usage"], bob["usage_at"], allocation["charged"]) == (77.0, NOW + 5, 1)


async def test_stages_of_one_transaction_run_together(store):
    await store.write(together([head_stage(np.array([]), np.array([5, 6])), queue_stage(1, [])]))
    assert [row["job_id"] for row in await store.rows("ranking_head")] == [5, 6]


async def test_of_the_head_only_what_changed_is_written(store):
    first, second = np.array([5, 6, 7]), np.array([5, 8])
    await store.write(head_stage(np.array([]), first))
    await store.write(head_stage(first, second))
    assert head_stage(second, second) is None
    assert await head(store) == [(1, 5), (2, 8)]


async def head(store):
    return sorted((row["rank"], row["job_id"]) for row in await store.rows("ranking_head"))


async def test_the_head_is_stored_whatever_comes_after_what(store):
    chance, stored = random.Random(7), np.array([])
    for _ in range(30):
        ids = np.array(chance.sample(range(1, 9), chance.randrange(8)), dtype=np.int64)
        if (stage := head_stage(stored, ids)) is not None:
            await store.write(stage)
        stored = ids
        assert await head(store) == list(enumerate(ids.tolist(), start=1))


async def test_values_are_stored_of_the_factors_without_a_formula(world):
    found = await world.read(stored_values, WEIGHTS)
    assert set(found) == {"fairshare", "luck"}
    assert dict(zip(found["luck"].keys.tolist(), found["luck"].values.tolist(), strict=True)) == {
        FIRST: FIRST / 10, SECOND: SECOND / 10,
    }  # fmt: skip
    jobs = [{"id": FIRST, "association_id": 1, "qos_id": 1, "queue_id": 1}]
    given = await world.look(given_values, FULL, ["luck", "age"], jobs)
    assert given[FIRST]["factors"]["luck"] == FIRST / 10
    assert "age" in given[FIRST]["factors"]


async def test_values_of_new_jobs_are_stored_on_the_full_generation(world):
    await world.write(value_stage(FULL, [("luck", BETWEEN, 0.25)]))
    [row] = await world.rows("job_factor", job_id=BETWEEN, factor="luck")
    assert (row["value"], row["points"]) == (0.25, 0.25 * WEIGHTS["luck"])


async def test_other_generations_are_pruned_a_few_rows_at_a_time(world):
    jobs = [FIRST, SECOND, BETWEEN]
    await store_generation(world, 3, jobs)
    tables = await world.read(stale_tables, 3)
    assert {"ranking_chunks", "ranking_leaves", "generation_values", "ranking_deltas"} <= set(tables)
    for table in tables:
        while await world.write(prune, table, 3):
            pass
    assert await world.read(stale_tables, 3) == []
    assert sorted(row["job_id"] for row in await world.rows("ranking")) == jobs


async def test_old_jobs_and_events_are_deleted_once_they_are_published(world):
    kept = await world.read(named)
    assert kept.jobs == frozenset({3})
    assert (await world.write(prune_jobs, 0, NOW - 1_000, kept)).gone == 0
    assert (await world.write(prune_jobs, 0, NOW + 10, Named(frozenset(), 0))).gone == 1
    assert (await world.write(prune_events, "job_events", 0, NOW + 10)).gone == 0, "of ended jobs only"
    assert (await world.write(prune_events, "node_events", 0, NOW + 10)).gone == 0, "they are not published"
