"""What the records tell of earlier instants, on every engine."""

import pytest
from builder import NOW
from contract.world import (
    BETWEEN,
    DELTA,
    FIRST,
    FULL,
    LATE,
    RUNNING,
    SECOND,
    allocate,
    header,
    world_configuration,
)

from rankd.core.errors import Refused
from rankd.core.fairshare.decay import charge
from rankd.store.engine.last_id import last_id
from rankd.store.look.dump import dump
from rankd.store.look.moment import find_moment, moment_at, moment_of_generation, newest_moment
from rankd.store.look.past_association import associations_then
from rankd.store.look.past_node import nodes_then
from rankd.store.look.past_usage import usage_then
from rankd.store.look.recorded_cycle import started_in
from rankd.store.record.generation import Settlement, publish


async def test_a_delta_generation_is_an_instant_of_its_own(world):
    full, delta = await world.look(newest_moment), await world.look(moment_of_generation, FULL + 1)
    assert (full.generation, full.ranked, full.cycle) == (FULL, full.revision, None)
    assert (delta.generation, delta.base["number"], delta.ranked > full.ranked) == (FULL + 1, FULL, True)
    assert await world.look(find_moment, str(FULL + 1)) == delta
    before, after = [await world.look(dump, world_configuration(), None, moment) for moment in (full, delta)]
    new = {job["id"] for job in after.document["jobs"]} - {job["id"] for job in before.document["jobs"]}
    assert new == {BETWEEN}
    assert {FIRST, SECOND, RUNNING} <= {job["id"] for job in before.document["jobs"]}
    assert LATE not in {job["id"] for job in after.document["jobs"]}


async def test_an_instant_without_a_ranking_is_refused_with_those_that_are_recorded(world):
    with pytest.raises(Refused, match=f"there is no generation 99: the records have generations {FULL} to {FULL + 1}"):
        await world.look(find_moment, "99")
    with pytest.raises(Refused, match="there is no ranking of 20"):
        await world.look(moment_at, NOW - 1e8)


async def test_a_node_that_joined_later_was_not_there(world):
    now, before = (await world.look(nodes_then, None)), await world.look(nodes_then, 0)
    assert [node.name for node in now.nodes] == ["n1", "n2", "n3"]
    assert (now.notes, before.nodes) == ([], [])


def used_in(associations):
    """The usage of users by account and user."""
    return {(row["account"], row["user"]): row["usage"] for row in associations if row["user"]}


async def test_usage_at_the_newest_ranking_is_what_the_ranking_used(world):
    moment = await world.look(newest_moment)
    half_life_s = world_configuration().settings.priority.fairshare.half_life_s
    stored = await world.look(associations_then, moment.base, FULL, world_configuration())
    computed = await world.look(usage_then, moment.base["revision"], moment.base["at"], half_life_s)
    names = {row["id"]: (row["account"], row["user"] or None) for row in await world.rows("associations")}
    amounts = {name: computed[id_] for id_, name in names.items()}
    used = used_in(stored)
    assert min(used.values()) > 0.0
    assert used == pytest.approx({name: amount for name, amount in amounts.items() if name[1]}, rel=1e-12)
    again = await world.look(associations_then, moment.base, FULL + 7, world_configuration())
    assert used_in(again) == pytest.approx(used, rel=1e-12)


async def test_what_was_recorded_after_the_ranking_is_not_in_its_usage(world):
    """Also if it had happened before."""
    moment = await world.look(newest_moment)
    stored = await world.look(associations_then, moment.base, FULL, world_configuration())
    await allocate(world, FIRST, "n2", at=NOW - 5)
    for node in ("n1", "n2"):
        await world.report(node, 3, RUNNING, "ended", at=NOW - 2, exit_status=0)
    rows = await world.rows("associations")
    later = NOW + 200_000
    half_life_s = world_configuration().settings.priority.fairshare.half_life_s
    bob = next(row for row in rows if row["user"] == "bob")
    amount = bob["usage"] * 0.5 ** (200_000 / half_life_s) + float(charge(1.0, NOW - 10, NOW - 2, later, half_life_s))
    settlement = Settlement(associations=[(amount, later, bob["id"])], allocations=[3])
    await world.write(publish(header(DELTA + 1, FULL, await world.read(last_id, "job_events"), 2), settlement))
    again = await world.look(associations_then, moment.base, DELTA + 1, world_configuration())
    assert used_in(again) == pytest.approx(used_in(stored), rel=1e-9)


async def test_what_a_cycle_started_is_recorded(world):
    started = await world.look(started_in, 1, 0)
    assert (len(started) > 1, started[0].nodes) == (True, ["n1"])
    assert await world.look(started_in, 4711, 0) == []
