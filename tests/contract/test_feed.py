"""What services read at their start and follow: typed rows, the same on every engine."""

import numpy as np
from builder import NOW
from contract.world import (
    BETWEEN,
    BLOCKED,
    DELTA,
    FIRST,
    FULL,
    HELD,
    LATE,
    RUNNING,
    SECOND,
    allocate,
    store_generation,
)

from rankd.core.model.node import NodeState
from rankd.core.ranking.columns import NO_GROUP
from rankd.store.engine.last_id import last_id
from rankd.store.feed import job as job_feed
from rankd.store.feed.application import begun_applications, changing_applications
from rankd.store.feed.association import associations_version, read_associations, unconfigured_users
from rankd.store.feed.charge import open_charges
from rankd.store.feed.job_end import happened_since
from rankd.store.feed.newest import newest
from rankd.store.feed.occupancy import open_since, read_open
from rankd.store.feed.order import new_jobs_since, newest_generation, read_delta, read_leaves, staged_generation
from rankd.store.feed.pending import active_by_association, jobs_of_class, read_pending_jobs, read_shapes
from rankd.store.feed.pending_kind import all_pending, changed_jobs
from rankd.store.feed.queue import partitions_of_queues
from rankd.store.feed.shape import read_shape
from rankd.store.record.all_nodes import all_nodes
from rankd.store.record.catalog import add_association
from rankd.store.record.catalog_version import catalog_version, raise_version

PENDING = [FIRST, SECOND, HELD, BLOCKED, BETWEEN, LATE]


async def test_every_node_as_it_registered(world):
    found = await world.look(all_nodes)
    assert [(node.name, node.capacity, node.state) for node in found] == [
        ("n1", {"vcore": 4000, "gpu": 1, "gpu:a100": 1}, NodeState.UP),
        ("n2", {"vcore": 4000}, NodeState.UP),
        ("n3", {"vcore": 4000}, NodeState.DRAINING),
    ]


async def test_open_allocations_and_their_details(world):
    [(allocation, started_at)] = await world.read(open_since)
    assert started_at == NOW - 8
    [found] = await world.read(lambda connection: list(read_open(connection, [allocation, 99])))
    assert (found.nodes, found.resources, found.user) == (["n1", "n2"], {"vcore": 1000}, "bob")
    assert (found.application, found.time_limit_s, found.partition) == (NO_GROUP, None, "default")
    assert await world.read(lambda connection: list(read_open(connection, []))) == []


async def test_an_allocation_counts_from_when_it_was_made_until_it_starts(store):
    await store.add_nodes("n1")
    [job] = await store.submit("alice")
    assert await store.read(open_since) == []
    await allocate(store, job, "n1", at=NOW + 7)
    assert await store.read(open_since) == [(1, NOW + 7)]


async def test_only_ends_of_jobs_free_room(world):
    last = await world.read(last_id, "job_events")
    assert (await world.read(happened_since, 0)).has_freed_room
    assert await world.read(happened_since, last) == (False, False)
    for node in ("n1", "n2"):
        await world.report(node, 3, RUNNING, "ended", exit_status=0)
    assert await world.read(happened_since, last) == (True, False)


async def test_before_the_first_generation_there_is_no_newest_one(store):
    assert await store.read(newest_generation) is None


async def test_the_newest_generation_and_its_new_jobs(world):
    found = await world.read(newest_generation)
    assert (found.number, found.base, found.ranked_at) == (DELTA, FULL, NOW)
    assert [await world.read(new_jobs_since, number) for number in (0, 1, 2)] == [2, 1, 0]


async def test_a_generation_is_staged_until_it_is_visible(world):
    assert await world.read(staged_generation, FULL) is None
    await store_generation(world, 3, [FIRST])
    found = await world.read(staged_generation, FULL)
    assert (found.number, found.ranked_at) == (3, NOW)
    assert found.revision == await world.read(last_id, "job_events")


async def test_the_order_by_leaf_and_the_delta_on_it(world):
    found = await world.read(read_leaves, FULL)
    ranks = {int(job): int(rank) for leaf in found.values() for job, rank in zip(leaf.ids, leaf.ranks, strict=True)}
    assert ranks == {FIRST: 1, SECOND: 2}
    queue = world.catalog.queues["default", "root.other"]
    assert list(await world.read(read_leaves, FULL, queue, queue)) == [queue]
    delta = await world.read(read_delta, FULL, FULL)
    [entries] = [delta.changed[chunk] for chunk in delta.places]
    assert (entries.ids.tolist(), entries.positions.tolist()) == ([BETWEEN], [2])
    assert (await world.read(read_delta, FULL, DELTA)).changed == {}


async def test_pending_jobs_as_columns(world):
    [found] = await world.read(lambda connection: list(all_pending(connection, with_users=True)))
    assert found.ids.tolist() == PENDING
    assert found.is_eligible.tolist() == [True, True, False, False, True, True]
    assert np.isnan(found.time_limits_s).all()
    assert (found.users[0], found.users[1]) == ("alice", "bob")
    assert (found.applications >= 0).tolist() == [job == SECOND for job in PENDING]
    [found] = await world.read(lambda connection: list(all_pending(connection, with_users=False)))
    assert set(found.users) == {None}


async def test_jobs_that_changed_since_an_event(world):
    last = await world.read(last_id, "job_events")
    assert await world.read(lambda connection: list(changed_jobs(connection, last, with_users=False))) == []
    await allocate(world, FIRST, "n1")
    [new] = await world.submit("alice")
    [found] = await world.read(lambda connection: list(changed_jobs(connection, last, with_users=True)))
    assert (found.pending.ids.tolist(), found.gone) == ([new], [FIRST])


async def test_the_shape_of_a_job(world):
    shape = await world.read(read_shape, RUNNING)
    assert (shape.partition, shape.nodes, shape.resources) == ("default", 1, {"vcore": 1000})


# --- what the prioritizer follows ---------------------------------------------------------------------------


async def test_all_pending_jobs_when_a_service_starts(world):
    found = await world.read(job_feed.load_jobs)
    assert found.pending.ids.tolist() == PENDING
    assert found.revision == await world.read(last_id, "job_events")
    assert [blocked.job for blocked in found.blocked] == [BLOCKED]
    assert found.new_jobs == 1, "one job is eligible that no generation knows"
    pending = await world.read(read_pending_jobs)
    assert pending.class_values.tolist() == [100, 0, 0, 0, 50, 0]
    assert pending.eligible_at[:2].tolist() == [NOW - 30, NOW - 20]
    shapes = await world.read(read_shapes, pending)
    assert (shapes.keys, shapes.rows) == (found.shapes.keys, found.shapes.rows)


async def test_what_one_ranking_needs(world):
    found, loaded = await world.read(job_feed.load_columns), await world.read(job_feed.load_jobs)
    assert (found.revision, found.tasks, found.shapes.rows) == (loaded.revision, loaded.tasks, loaded.shapes.rows)
    assert found.pending.ids.tolist() == PENDING
    assert (found.blocked, found.new_jobs) == ([], 0)
    assert await world.read(active_by_association) == {world.catalog.associations["physics", "bob"]: 1}
    await world.submit("alice", priority_class="gold")
    [gold] = await world.submit("bob", priority_class="gold")
    assert (await world.read(jobs_of_class, "gold")).tolist() == [gold - 1, gold]
    assert (await world.read(jobs_of_class, "none")).tolist() == []


async def test_jobs_that_changed_after_an_event(world):
    before = await world.read(last_id, "job_events")
    assert (await world.read(job_feed.changed_jobs, before, set())).jobs == []
    await allocate(world, FIRST, "n1")
    [new] = await world.submit("alice", resources={"vcore": 2000})
    found = await world.read(job_feed.changed_jobs, before, set())
    assert [(job.id, job.state) for job in found.jobs] == [(FIRST, "allocated"), (new, "pending")]
    assert found.revision == await world.read(last_id, "job_events")
    assert [shape.vcore for shape in found.shapes.values()] == [2000]
    first = await world.read(job_feed.changed_jobs, before, set(), 1)
    assert ([job.id for job in first.jobs], first.revision) == ([FIRST], before + 1)


async def test_what_is_newest(world):
    assert await world.read(newest) == (
        await world.read(last_id, "job_events"),
        await world.read(last_id, "node_events"),
        await world.read(catalog_version),
    )
    before = await world.read(newest)
    await world.submit("alice")
    await world.write(raise_version)
    after = await world.read(newest)
    assert after == (before.job_event + 1, before.node_event, before.catalog + 1)


async def test_associations_and_the_users_that_jobs_added(world):
    rows = {(row.association.account, row.association.user): row for row in await world.read(read_associations)}
    assert set(rows) == {("root", None), ("physics", None), ("physics", "alice"), ("physics", "bob")}
    bob = rows["physics", "bob"]
    assert (bob.usage, bob.usage_at, bob.is_configured) == (10.0, NOW, True)
    before = await world.read(associations_version)
    id_ = await world.write(add_association, "physics", "eve", 1.0, NOW)
    assert await world.read(associations_version) != before
    assert await world.read(unconfigured_users) == frozenset({id_})


async def test_applications_that_began_and_those_that_change(world):
    [row] = await world.read(begun_applications, 0)
    queue = world.catalog.queues["default", "root.other"]
    assert (row.name, row.queue) == ("app", queue)
    assert await world.read(begun_applications, row.revision) == []
    assert await world.read(changing_applications, [queue]) == {row.id: "accepted"}
    assert await world.read(changing_applications, []) == {}


async def test_charges_that_are_not_settled(world):
    [charge] = await world.read(open_charges)
    assert charge.association == world.catalog.associations["physics", "bob"]
    assert (charge.rate, charge.since, charge.until) == (1.0, NOW - 10, None)


async def test_the_partitions_of_all_queues(world):
    assert set(await world.read(partitions_of_queues)) == set(world.catalog.queues.values())
