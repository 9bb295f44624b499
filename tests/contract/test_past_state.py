"""What the records tell of earlier instants, on every engine."""

import pytest
from builder import NOW
from contract.world import BETWEEN, FIRST, FULL, LATE, RUNNING, SECOND, world_configuration

from rankd.core.errors import Refused
from rankd.store.look.dump import dump
from rankd.store.look.moment import find_moment, moment_at, moment_of_generation, newest_moment
from rankd.store.look.past_association import associations_then
from rankd.store.look.past_node import nodes_then
from rankd.store.look.past_usage import usage_then
from rankd.store.look.recorded_cycle import started_in


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


async def test_usage_at_the_newest_ranking_is_what_the_ranking_used(world):
    moment = await world.look(newest_moment)
    half_life_s = world_configuration().settings.priority.fairshare.half_life_s
    stored = await world.look(associations_then, moment.base, FULL, world_configuration())
    computed = await world.look(usage_then, moment.base["revision"], moment.base["at"], half_life_s)
    assert {row["user"]: row["usage"] for row in stored if row["user"]}
    assert set(computed.values()) >= {0.0}
    again = await world.look(associations_then, moment.base, FULL + 7, world_configuration())
    users = [[(row["account"], row["user"]) for row in rows if row["user"]] for rows in (stored, again)]
    assert users[0] == users[1]


async def test_what_a_cycle_started_is_recorded(world):
    started = await world.look(started_in, 1, 0)
    assert (len(started) > 1, started[0].nodes) == (True, ["n1"])
    assert await world.look(started_in, 4711, 0) == []
