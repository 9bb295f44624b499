"""What people and commands ask: every look answers from the same world on every engine."""

import msgspec
import pytest
from builder import NOW
from contract.world import (
    ALICE_JOBS,
    BETWEEN,
    BLOCKED,
    DONE,
    FIRST,
    HELD,
    LATE,
    RUNNING,
    SECOND,
    WEIGHTS,
    allocate,
    end,
    world_configuration,
)

from rankd.core.errors import Refused, Unavailable
from rankd.core.model.access import AccessList
from rankd.store.engine.last_id import last_id
from rankd.store.look import event_list
from rankd.store.look.accounting import accounting, accounting_of
from rankd.store.look.class_list import class_access, classes
from rankd.store.look.demo_state import (
    generation_count,
    have_all_ended,
    jobs_by_state,
    running_by_user,
    see_newest,
    starts_of_jobs,
    waits_by_user,
)
from rankd.store.look.dump import dump
from rankd.store.look.event_list import events_behind
from rankd.store.look.filter_check import check_filter
from rankd.store.look.job_detail import job_detail, job_events, owner_of
from rankd.store.look.job_filter import count_jobs, job_ids
from rankd.store.look.job_list import jobs, jobs_of
from rankd.store.look.job_runs import job_runs, node_now
from rankd.store.look.node_list import count_running, nodes
from rankd.store.look.page import (
    LISTINGS,
    accounting_page,
    answer,
    event_page,
    follow_page,
    job_page,
    letter_page,
    priority_page,
)
from rankd.store.look.priority_list import breakdown, has_ranking, head, priorities, priorities_of, weights
from rankd.store.look.queue_list import queues
from rankd.store.look.rank_look import at_rank, whole_ranking
from rankd.store.look.service_list import services
from rankd.store.look.share_list import accounts_part, shares
from rankd.store.look.why import out_of_service, why
from rankd.store.record.history import prune_events
from rankd.store.record.priority_class import write_access
from rankd.store.record.relay_mark import Mark, move_mark
from rankd.wire.message import (
    AccountingFilter,
    DeadLetterFilter,
    EventsRequest,
    HistoryRequest,
    JobFilter,
    JobList,
    PriorityList,
    RankPlace,
    TableFilter,
)

ALL_JOBS = [DONE, RUNNING, FIRST, SECOND, HELD, BLOCKED, BETWEEN, LATE]
PENDING = [FIRST, BETWEEN, SECOND, HELD, BLOCKED, LATE]
"""By rank; those without a rank last, by id."""


def ids(rows):
    return [row["id"] for row in rows]


FILTERS = [
    (JobFilter(), ALL_JOBS),
    (JobFilter(id=DONE), [DONE]),
    (JobFilter(ids=[LATE, 77, DONE]), [DONE, LATE]),
    (JobFilter(ids=[]), []),
    (JobFilter(ids=list(range(2, 50_000))), ALL_JOBS),
    (JobFilter(users=["alice"]), ALICE_JOBS),
    (JobFilter(users=["x' OR 1=1 --"]), []),
    (JobFilter(accounts=["physics"], states=["running", "completed"]), [DONE, RUNNING]),
    (JobFilter(queues=["ROOT.Other"]), [SECOND]),
    (JobFilter(partitions=["elsewhere"]), []),
    (JobFilter(qos=["normal"], names=["true"], after=HELD), [BLOCKED, BETWEEN, LATE]),
    (JobFilter(limit=2), [BETWEEN, LATE]),
    (JobFilter(limit=2, after=DONE), [RUNNING, FIRST]),
]


@pytest.mark.parametrize(("wanted", "expected"), FILTERS)
async def test_a_filter_chooses_the_same_jobs_for_lists_ids_and_counts(world, wanted, expected):
    assert ids(await world.look(jobs, wanted)) == expected
    assert sorted(await world.look(job_ids, wanted)) == expected
    if wanted.limit > len(ALL_JOBS) and wanted.after is None:
        assert await world.look(count_jobs, wanted) == len(expected)


def sent(page, room):
    """The answer as it is sent."""
    return msgspec.json.decode(msgspec.json.encode(answer(page, room)))


async def test_jobs_are_decoded_and_ranked(world):
    rows = {row["id"]: row for row in await world.look(jobs_of, ALL_JOBS, JobList())}
    assert rows[FIRST]["resources"] == {"vcore": 1.0}
    assert rows[BLOCKED]["depends_on"] == [{"type": "afterok", "job": RUNNING}]
    assert rows[HELD]["held"] is True
    assert {job: row["rank"] for job, row in rows.items() if row["rank"]} == {FIRST: 1, BETWEEN: 2, SECOND: 3}
    assert rows[SECOND]["expected_start_at"] == NOW + 60
    assert rows[SECOND]["reserved_nodes"] == ["n1"]


async def test_everything_about_one_job(world):
    found = await world.look(job_detail, FIRST)
    assert (found["command"], found["queue"], found["state"]) == (["true"], "root.default", "pending")
    assert found["priority_breakdown"]["rank"] == 1
    assert "env" not in found
    assert (await world.look(job_detail, FIRST, "alice"))["env"] == {}
    assert [await world.look(owner_of, job) for job in (FIRST, SECOND, 99)] == ["alice", "bob", None]
    with pytest.raises(Refused, match="there is no job 99"):
        await world.look(job_detail, 99)


async def test_the_events_of_a_job(world):
    events = [row["event"] for row in await world.look(job_events, DONE)]
    assert events == ["submit", "allocate", "start", "complete"]


async def test_breakdowns_come_by_rank(world):
    assert ids(await world.look(priorities, JobFilter())) == PENDING
    assert ids(await world.look(priorities_of, [LATE, SECOND])) == [SECOND, LATE]
    assert ids(await world.look(head, 2)) == [FIRST, BETWEEN]
    first = await world.look(breakdown, FIRST)
    assert [factor["name"] for factor in first["factors"]] == list(WEIGHTS)
    assert (first["rank"], first["generation"]) == (1, 2)
    assert await world.look(weights) == WEIGHTS


async def test_before_the_first_ranking_nothing_has_a_breakdown(store):
    [job] = await store.submit("alice")
    assert not await store.look(has_ranking)
    assert await store.look(priorities, JobFilter()) == await store.look(head, 5) == []
    assert await store.look(breakdown, job) is None
    assert await store.look(weights) == {}
    assert await store.look(whole_ranking) == {}
    assert await store.look(at_rank, 1) is None


async def test_ranks_by_job_and_jobs_by_rank(world):
    assert await world.look(has_ranking)
    ranked = await world.look(whole_ranking)
    assert {job: rank for job, (rank, _) in ranked.items()} == {FIRST: 1, BETWEEN: 2, SECOND: 3}
    assert [await world.look(at_rank, rank) for rank in (1, 2, 3, 4)] == [FIRST, BETWEEN, SECOND, None]


async def test_why_a_job_waits(world):
    found = await world.look(why, SECOND)
    assert (found["rank"], found["of"], found["reason"]) == (3, 3, "resources")
    assert found["above"]["id"] == BETWEEN
    assert found["below"] is None
    assert found["lacks"] == [], "three cores of each node are free now"
    assert [row["queue"] for row in found["path"]] == ["root.other"]
    with pytest.raises(Refused, match="there is no job 99"):
        await world.look(why, 99)


async def test_named_nodes_that_take_no_jobs_are_told_with_the_reason(world):
    assert await world.look(out_of_service, "rankd/node in (n1,n3,none)") == ". n3 is draining: a fan"
    assert await world.look(out_of_service, "disk=ssd,rankd/node notin (n3)") == ""


async def test_nodes_and_what_runs_on_them(world):
    rows = {row["name"]: row for row in await world.look(nodes)}
    assert list(rows) == ["n1", "n2", "n3"]
    assert (rows["n1"]["allocations"], rows["n1"]["allocated"]) == (1, {"vcore": 1.0, "gpu": 1, "gpu:a100": 1})
    assert (rows["n3"]["state"], rows["n3"]["drain_reason"]) == ("draining", "a fan")
    assert await world.look(count_running, ["n1", "n2"]) == 1
    assert await world.look(count_running, ["n3"]) == 0


async def test_services_and_silent_nodes(world):
    found = await world.look(services)
    assert [row["name"] for row in found["services"]] == ["intake"]
    assert {row["name"] for row in found["nodes"]} <= {"n1", "n2", "n3"}


async def test_queues_and_their_places(world):
    rows = {row["path"]: row for row in await world.look(queues)}
    assert (rows["root.default"]["place"], rows["root.default"]["ahead_by"]) == (1, "priority")
    assert rows["root.other"]["max"] == {"vcore": 9.0}
    assert rows["root.other"]["place"] == 2


async def test_shares(world):
    everything = await world.look(shares)
    rows = [(row["account"], row["user"]) for row in everything]
    assert await world.look(shares, "alice") == [row for row in everything if row["user"] == "alice"] != []
    assert rows == [("physics", None), ("physics", "alice"), ("physics", "bob"), ("root", None)]


async def test_the_part_of_an_account_is_that_of_its_row(world):
    rows = await world.look(shares)
    of_account = {row["account"]: row["shares_norm"] for row in rows if row["user"] is None}
    assert len(of_account) > 1
    for account, part in of_account.items():
        assert await world.look(accounts_part, account) == part
    assert await world.look(accounts_part, "none of this name") is None


async def test_classes(world):
    rows = {row["name"]: row for row in await world.look(classes)}
    assert rows["high"]["value"] == 1000
    assert await world.look(class_access) == {}
    await world.write(write_access, "high", AccessList(groups=["ops"]))
    assert await world.look(class_access) == {"high": AccessList(groups=["ops"])}
    [row] = [row for row in await world.look(classes) if "access" in row]
    assert (row["name"], row["access"]) == ("high", {"users": [], "groups": ["ops"]})


async def test_accounting(world):
    [row] = await world.look(accounting, AccountingFilter(states=["completed"]))
    assert (row["id"], row["cpu_s"], row["measured"]) == (DONE, 3.0, "cgroup")
    assert ids(await world.look(accounting_of, [DONE, RUNNING], AccountingFilter())) == [DONE, RUNNING]
    assert await world.look(accounting, AccountingFilter(until=NOW - 1000)) == []
    assert LATE not in ids(await world.look(accounting, AccountingFilter(since=NOW - 45, until=NOW)))


async def test_accounting_has_the_cause_of_an_end_also_once_its_events_are_deleted(world):
    request = {"cwd": "/home/bob", "requeue": False}
    await world.submit("bob", at=NOW, request=request)
    [row] = await world.look(accounting, AccountingFilter(limit=1))
    assert (row["cwd"], row["cause"], row["message"]) == ("/home/bob", None, None)
    await allocate(world, row["id"], "n1", at=NOW)
    message = "more than 1 GiB"
    await end(world, row["id"], "n1", at=NOW + 5, exit_status=137, cause="out_of_memory", message=message)
    for _ in range(2):
        [row] = await world.look(accounting, AccountingFilter(limit=1))
        assert (row["state"], row["cause"], row["message"]) == ("out_of_memory", "out_of_memory", message)
        await world.write(move_mark, Mark.JOBS, await world.read(last_id, "job_events"))
        await world.write(prune_events, "job_events", 0, NOW + 3600)
    assert await world.look(job_events, row["id"]) == []


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (JobFilter(users=["nobody-of-that-name"]), "unknown_user"),
        (JobFilter(accounts=["phisics"]), "unknown_account"),
        (JobFilter(queues=["root.defualt"]), "unknown_queue"),
        (JobFilter(partitions=["gpu"]), "unknown_partition"),
        (JobFilter(qos=["high"]), "unknown_qos"),
        (JobFilter(states=["waiting"]), "unknown_state"),
    ],
)
async def test_names_that_do_not_exist_are_refused(world, wanted, code):
    with pytest.raises(Refused) as caught:
        await world.look(check_filter, wanted)
    assert caught.value.code == code


async def test_names_that_exist_are_accepted(world):
    wanted = JobFilter(
        users=["alice"], accounts=["physics"], queues=["ROOT.default"], partitions=["default"], qos=["normal"],
        states=["pending"],
    )  # fmt: skip
    await world.look(check_filter, wanted)


async def test_pages_of_jobs(world):
    page = await world.look(job_page, JobList(limit=3, count=True))
    found = sent(page, 10**6)
    assert (ids(found["jobs"]), found["total"]) == ([LATE, BETWEEN, BLOCKED], len(ALL_JOBS))
    page = await world.look(job_page, JobList(limit=100, **found["next"]))
    assert ids(page.rows) == [HELD, SECOND, FIRST, RUNNING, DONE]
    assert not page.more
    assert ids((await world.look(accounting_page, AccountingFilter(limit=1))).rows) == [LATE]


async def test_pages_of_breakdowns(world):
    page = await world.look(priority_page, PriorityList(limit=2, count=True))
    assert (ids(page.rows), page.more, page.besides["total"]) == ([FIRST, BETWEEN], True, len(PENDING))
    page = await world.look(priority_page, PriorityList(behind=RankPlace(job=BETWEEN, rank=2)))
    assert ids(page.rows) == PENDING[2:]


async def test_pages_of_events_and_letters(world):
    page = await world.look(event_page, HistoryRequest(id=DONE, limit=2))
    assert ([row["event"] for row in page.rows], page.more) == (["submit", "allocate"], True)
    page = await world.look(letter_page, DeadLetterFilter())
    assert [row["message_id"] for row in page.rows] == ["m1"]
    assert page.besides == {"losses": []}


async def followed(world, room=10**6, **wanted):
    """The events of all pages from the first one on, and the number of pages."""
    events, last, pages, more = [], 0, 0, True
    while more:
        found = sent(await world.look(follow_page, EventsRequest(after=last, **wanted)), room)
        assert found["last"] > last or not found["more"]
        events, last, pages, more = events + found["events"], found["last"], pages + 1, found["more"]
    return events, pages


async def recorded(world, *wanted):
    """The ids of the events of these jobs."""
    return sorted(row["id"] for row in await world.rows("job_event") if row["job_id"] in wanted)


@pytest.mark.parametrize("limit", [1, 3, 1_000])
@pytest.mark.parametrize("looked_at", [1, 4, 100_000])
async def test_followed_events_come_once_in_order_and_of_the_wanted_jobs_only(world, monkeypatch, limit, looked_at):
    monkeypatch.setattr(event_list, "MOST_LOOKED_AT", looked_at)
    every, _ = await followed(world, limit=limit)
    assert ids(every) == await recorded(world, *ALL_JOBS)
    own, _ = await followed(world, limit=limit, users=["alice"])
    assert ids(own) == await recorded(world, *ALICE_JOBS)
    assert {event["user"] for event in own} == {"alice"}
    some, _ = await followed(world, limit=limit, users=["alice"], jobs=[DONE, RUNNING])
    assert ids(some) == await recorded(world, DONE)
    assert (await followed(world, limit=limit, users=["x' OR 1=1 --"]))[0] == []
    assert (await followed(world, limit=limit, users=[]))[0] == []


async def test_a_followed_event_is_as_published_with_its_user(world):
    [event] = (await world.look(follow_page, EventsRequest(after=0, jobs=[LATE]))).rows
    assert event == {
        "id": event["id"], "job": LATE, "event": "submit", "state": "pending", "at": NOW + 1, "actor": "bob",
        "cause": None, "via": None, "user": "bob",
    }  # fmt: skip


async def test_a_page_of_followed_events_fits_into_the_message(world):
    events, pages = await followed(world, room=300)
    assert ids(events) == await recorded(world, *ALL_JOBS)
    assert pages > 3


async def test_following_begins_with_the_newest_event_or_at_a_time(world):
    newest = max(await recorded(world, *ALL_JOBS))
    assert await world.look(events_behind, EventsRequest()) == ([], newest, False)
    assert await world.look(events_behind, EventsRequest(after=newest)) == ([], newest, False)
    assert await world.look(events_behind, EventsRequest(after=newest + 5)) == ([], newest, False)
    assert await world.look(events_behind, EventsRequest(since=NOW + 2)) == ([], newest, False)
    late = await world.look(events_behind, EventsRequest(since=NOW + 0.5))
    assert ([row["job"] for row in late.rows], late.last) == ([LATE], newest)
    everything = await world.look(events_behind, EventsRequest(since=0.0))
    assert ids(everything.rows) == await recorded(world, *ALL_JOBS)


async def test_nothing_is_followed_where_nothing_happened(store):
    for wanted in (EventsRequest(), EventsRequest(after=0), EventsRequest(since=NOW)):
        assert await store.look(events_behind, wanted) == ([], 0, False)


@pytest.mark.parametrize("verb", LISTINGS)
async def test_lists_are_read_whole_page_after_page(world, verb):
    listing = LISTINGS[verb]
    whole = await world.look(listing.read)
    rows, after = [], None
    while after is not None or not rows:
        found = sent(await world.look(listing.page, TableFilter(limit=1, after=after)), 10**6)
        rows += found[listing.name]
        after = found.get("next", {}).get("after")
    assert rows == whole


async def test_a_dump_is_the_state_of_the_newest_full_generation(world):
    found = await world.look(dump, world_configuration(), None)
    assert (found.generation, found.newer, found.updated) == (1, 2, [])
    assert ids(found.document["jobs"]) == [RUNNING, FIRST, SECOND, HELD, BLOCKED]
    assert {row["job"]: row["node"] for row in found.document["allocations"]} == {RUNNING: "n2"}
    assert [row["name"] for row in found.document["nodes"]] == ["n1", "n2", "n3"]


async def test_without_a_ranking_there_is_no_dump(store):
    await store.configure()
    with pytest.raises(Unavailable, match="there was no ranking yet"):
        await store.look(dump, world_configuration(), None)


async def test_the_demo_counts_jobs_by_state_and_user(world):
    assert await world.look(jobs_by_state) == {"completed": 1, "pending": 6, "running": 1}
    assert [(row.user, row.jobs, row.cores) for row in await world.look(running_by_user)] == [("bob", 1, 1.0)]
    assert [(row.user, row.jobs) for row in await world.look(waits_by_user)] == [("alice", 1), ("bob", 1)]
    assert await world.look(generation_count) == (2, 3)
    starts = {row.id: row.starts for row in await world.look(starts_of_jobs)}
    assert {job for job, n_starts in starts.items() if n_starts} == {DONE, RUNNING}


async def test_a_reader_sees_what_came_after_it_asks_for_the_newest_state(store):
    def ended(connection):
        before = have_all_ended(connection)
        see_newest(connection)
        return before, have_all_ended(connection)

    assert await store.look(ended) == (True, True)
    await store.submit("alice")
    assert await store.look(ended) == (False, False)


async def test_the_runs_of_a_job_are_those_of_its_allocations_in_the_order_of_its_nodes(world):
    found = await world.look(job_runs, RUNNING)
    assert (found.job, found.owner, found.state, found.appends, found.first_task) == (
        RUNNING,
        "bob",
        "running",
        False,
        None,
    )
    assert [(run.node, run.started_at is not None, run.stdout) for run in found.runs] == [
        ("n1", True, "/tmp/out"), ("n2", True, "/tmp/out"),
    ]  # fmt: skip
    waits = await world.look(job_runs, HELD)
    assert (waits.runs, waits.reason) == ([], "held")
    with pytest.raises(Refused) as refused:
        await world.look(job_runs, 99)
    assert refused.value.code == "unknown_job"


async def test_a_node_as_the_records_have_it(world):
    found = await world.look(node_now, "n1")
    assert (found.state, found.heartbeat_at) == ("up", NOW)
    assert await world.look(node_now, "n9") is None
