"""What the page asks: every look answers from the same world on every engine."""

import pytest
from builder import NOW
from contract.arrays import submit_array
from contract.store import ALICE
from contract.world import BETWEEN, BLOCKED, FIRST, HELD, LATE, RUNNING, SECOND

from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel
from rankd.core.errors import Refused, Unavailable
from rankd.core.model.index_set import parse
from rankd.core.model.wait_part import WaitCause
from rankd.store.engine.reading import fetch
from rankd.store.engine.time_limit import time_limit
from rankd.store.look.array_grid import array_grid
from rankd.store.look.as_asker import check_sees, job_script_for, job_shown_to, why_for
from rankd.store.look.job_window import in_states, unranked
from rankd.store.look.newest import newest
from rankd.store.look.priority_list import priorities_of
from rankd.store.look.queue_first import first_of_queues
from rankd.store.look.rank_window import RankFilter, first_places, window, with_details
from rankd.store.look.reservation_list import reservations
from rankd.store.look.service_past import adapter_readings, last_configurations, last_generations
from rankd.store.look.waited import waited_of
from rankd.store.look.web import nodes, shares
from rankd.store.look.web.look import NOBODY
from rankd.store.look.web.nodes import NODES
from rankd.store.look.web.queue import QUEUE
from rankd.store.look.web.queues import QUEUES
from rankd.store.look.web.services import SERVICES
from rankd.store.look.web.shares import SHARES
from rankd.store.record.array import split_these
from rankd.store.record.job_action import act


async def test_a_window_of_the_ranking_begins_behind_a_rank(world):
    first = await world.look(window, RankFilter(), 0, 2)
    assert [(row["rank"], row["id"]) for row in first.rows] == [(1, FIRST), (2, BETWEEN)]
    assert (first.ranked, first.after, first.is_cut) == (3, 2, False)
    rest = await world.look(window, RankFilter(), first.after, 2)
    assert [(row["rank"], row["id"], row["after"]) for row in [rest.rows[0] | {"after": rest.after}]] == [
        (3, SECOND, None)
    ]
    assert rest.rows[0]["reason_fact"] == "too few cores"


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({"user": "alice"}, [FIRST, BETWEEN]),
        ({"only": "bob"}, [SECOND]),
        ({"user": "alice", "only": "bob"}, []),
        ({"account": "physics"}, [FIRST, BETWEEN, SECOND]),
        ({"account": "none"}, []),
        ({"queue": "root.OTHER"}, [SECOND]),
        ({"queue": "root"}, [FIRST, BETWEEN, SECOND]),
        ({"queue": "roo_"}, []),
        ({"text": str(SECOND)}, [SECOND]),
        ({"text": "%"}, []),
        ({"text": "9" * 30}, []),
    ],
)
async def test_a_window_has_the_jobs_that_match(world, wanted, ids):
    found = await world.look(window, RankFilter(**wanted), 0, 10)
    assert [row["id"] for row in found.rows] == ids


async def test_the_details_of_a_breakdown_are_those_of_its_job(world):
    rows = await world.look(priorities_of, [SECOND])
    [row] = await world.look(with_details, rows)
    assert (row["id"], row["nodes"], row["state"], row["expected_start_at"]) == (SECOND, 1, "pending", NOW + 60)


async def test_the_first_places_are_known_by_rank(world):
    assert await world.look(first_places) == [FIRST, BETWEEN, SECOND]


async def test_the_newest_of_each_kind_is_known(world):
    found = await world.look(newest)
    assert (found.generation, found.configuration) == (2, 1)
    assert min(found.event, found.node) > 0


async def test_an_asker_sees_no_more_than_the_privacy_of_the_site_allows(world):
    bob, hidden = Submitter("bob", privileged=False), Submitter("bob", privileged=False, sees="own")
    await world.look(check_sees, FIRST, bob, "job.show")
    with pytest.raises(Refused, match="belongs to"):
        await world.look(check_sees, FIRST, hidden, "job.show")
    assert "env" not in await world.look(job_shown_to, FIRST, bob)
    assert (await world.look(job_shown_to, SECOND, bob))["env"] == {}
    with pytest.raises(Refused, match="belongs to"):
        await world.look(job_script_for, FIRST, bob)
    assert (await world.look(why_for, SECOND, bob))["above"]["user"] == "alice"
    assert (await world.look(why_for, SECOND, hidden))["above"] is None


async def test_the_first_job_of_each_queue_is_known(world):
    found = await world.look(first_of_queues)
    assert {path: row["id"] for (_, path), row in found.items()} == {"root.default": FIRST, "root.other": SECOND}


async def test_the_past_of_the_services(world):
    assert [row["number"] for row in await world.look(last_generations, 10)] == [1, 2]
    assert [row["number"] for row in await world.look(last_generations, 1)] == [2]
    [configuration] = await world.look(last_configurations, 5)
    assert (configuration["number"], configuration["actor"], configuration["event"]) == (1, "root", "started")
    assert [row["name"] for row in await world.look(adapter_readings)] == ["grades"]


async def test_only_an_array_has_a_grid(world):
    assert await world.look(array_grid, FIRST) is None


async def test_an_array_is_shown_as_a_grid_of_its_tasks(store):
    array = await submit_array(store)
    await store.write(split_these, array, parse("2,5"), "alice", NOW)
    grid = await store.look(array_grid, array)
    assert grid.cells == [(task, "pending") for task in range(10)]
    assert (grid.counts["n_tasks"], grid.counts["n_pending"], grid.counts["n_waiting"]) == (10, 8, 2)
    assert not grid.is_cut


async def test_waiting_jobs_that_the_newest_ranking_does_not_have_are_listed(world):
    found = await world.look(unranked, RankFilter(), 10)
    assert ([row["id"] for row in found.rows], found.more, found.is_cut) == ([LATE, BLOCKED, HELD], False, False)
    assert found.rows[-1]["reason"] == "held"
    assert [row["id"] for row in (await world.look(unranked, RankFilter(text=str(HELD)), 10)).rows] == [HELD]
    assert (await world.look(unranked, RankFilter(), 1)).more
    assert (await world.look(unranked, RankFilter(user="nobody"), 10)).rows == []


async def test_jobs_are_listed_by_state_newest_first_with_the_same_filter(world):
    pending = await world.look(in_states, RankFilter(), ["pending"], None, 2)
    assert ([row["id"] for row in pending.rows], pending.more) == ([LATE, BETWEEN], True)
    rest = await world.look(in_states, RankFilter(queue="root"), ["pending"], FIRST + 1, 2)
    assert ([row["id"] for row in rest.rows], rest.more) == ([FIRST], False)
    assert [row["id"] for row in (await world.look(in_states, RankFilter(), ["running"], None, 9)).rows] == [RUNNING]
    done = await world.look(in_states, RankFilter(user="alice", text="a"), ["completed", "cancelled"], None, 9)
    assert [row["state"] for row in done.rows] == ["completed"] * len(done.rows)


async def test_reservations_are_listed_with_their_jobs(world):
    [row] = await world.look(reservations)
    assert (row["id"], row["user"], row["expected_start_at"]) == (SECOND, "bob", NOW + 60)
    assert isinstance(row["reserved_nodes"], list)


async def test_what_a_user_waited_for_has_all_causes(store):
    await store.submit("alice")
    assert await store.look(waited_of, "alice") == (0, dict.fromkeys(WaitCause, 0.0))
    [job] = await store.submit("alice", at=NOW)
    await store.write(act, [job], ALICE, NOW + 90, cancel)
    number, seconds = await store.look(waited_of, "alice")
    assert (number, sum(seconds.values())) == (1, 90.0)


async def test_a_queue_has_the_priority_of_its_best_job_before_its_own_offset(world):
    rows = {row["path"]: row for row in await world.look(QUEUES.read, ALICE, {})}
    waiting = (await world.look(QUEUE.read, ALICE, {})).waiting.rows
    for path in ("root.default", "root.other"):
        best = max(row["priority"] for row in waiting if row["queue"] == path)
        assert rows[path]["own"] == best, path
    assert rows["root"]["own"] == max(
        row["priority"] for path, row in rows.items() if path != "root" and row["priority"]
    )


async def test_the_page_of_the_queue_has_the_starts_that_were_forecast(world):
    waiting = (await world.look(QUEUE.read, ALICE, {"state": "waiting"})).waiting.rows
    assert [(row["early"], row["late"]) for row in waiting] == [(NOW + 60, NOW + 120), (None, None), (None, None)]


async def test_only_administrators_see_who_changed_the_configuration_and_what(world):
    for asker in (ALICE, NOBODY, Submitter("root", privileged=False, via="web", is_operator=True)):
        [row] = (await world.look(SERVICES.read, asker, {})).configurations
        assert (row.pop("number"), row.pop("at"), row.pop("changes")) == (1, NOW, [])
        assert set(row.values()) == {None}, asker
    [row] = (await world.look(SERVICES.read, Submitter("root", privileged=True), {})).configurations
    assert (row["number"], row["actor"], row["event"], row["directory"]) == (1, "root", "started", "/etc")


async def test_a_view_has_as_many_nodes_and_shares_as_are_shown_and_their_number(world, monkeypatch):
    every = await world.look(NODES.read, ALICE, {})
    tree = await world.look(SHARES.read, ALICE, {})
    assert (every.n, tree.n) == (len(every.rows), len(tree.rows))
    assert min(every.n, tree.n) > 1
    monkeypatch.setattr(nodes, "MOST", 1)
    monkeypatch.setattr(shares, "MOST", 1)
    assert await world.look(NODES.read, ALICE, {}) == (every.rows[:1], every.n)
    assert await world.look(SHARES.read, ALICE, {}) == (tree.rows[:1], tree.n, tree.own)


async def test_users_come_below_their_accounts(world):
    rows = (await world.look(SHARES.read, ALICE, {})).rows
    depths = {row["account"]: row["depth"] for row in rows if row["user"] is None}
    assert {row["depth"] - depths[row["account"]] for row in rows if row["user"]} == {1}
    assert min(depths.values()) == 0


async def test_a_look_that_takes_too_long_is_interrupted(store):
    def endless(reader):
        sql = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 - n FROM c) SELECT count(*) AS n FROM c"
        with time_limit(reader, 0.05):
            fetch(reader, sql)

    with pytest.raises(Unavailable, match=r"longer than 0\.05 s"):
        await store.look(endless)
    assert (await store.look(newest)).node == 0
