"""Jobs: submitted, held, released, cancelled, changed; what they wait for; the applications that they belong to."""

import pytest
from builder import NOW, accepted, admission_tables
from contract.store import ALICE, ROOT
from contract.world import BLOCKED, FIRST, HELD, RUNNING, SECOND, allocate
from sqlalchemy import delete

from rankd.core.change.job_action import cancel, hold, release
from rankd.core.change.job_change import Change
from rankd.core.change.job_update import Task
from rankd.core.errors import InvalidTransition
from rankd.core.model.application import ApplicationEvent
from rankd.core.model.array import ArrayRequest
from rankd.core.model.job import Dependency, Event, State
from rankd.store.engine.last_id import last_id
from rankd.store.feed.new_pending import AT_ONCE, Newest, NewPending, newest, pending_between
from rankd.store.record.application import (
    application_of,
    follow,
    memberships,
    overdue_applications,
    save_waiting_applications,
)
from rankd.store.record.dependency import (
    blocked_jobs,
    known_jobs,
    progress_of,
    show_reason,
    still_blocked,
)
from rankd.store.record.job import NewJob, apply_changes, association_of, insert_jobs, known_keys, read_states
from rankd.store.record.job_action import act, select_ids
from rankd.store.record.job_story import past_events, tells_story
from rankd.store.record.job_update import judge, judge_again, write_update
from rankd.store.record.pending_count import count_pending, count_pending_of_account
from rankd.store.record.pending_variety import shapes_of_all, variety_of_user
from rankd.store.schema.table import job_events
from rankd.wire.job_update import JobUpdate
from rankd.wire.message import JobFilter


async def test_ids_ascend_and_a_known_key_gives_the_same_job(store):
    first = await store.submit("alice", "alice", "bob")
    assert first == [1, 2, 3]
    keyed = await store.submit("alice", request={"key": "k"})
    assert await store.submit("alice", "alice", request={"key": "k"}) == keyed * 2
    assert await store.submit("bob", request={"key": "k"}) == [5], "another user's key"
    assert await store.read(last_id, "jobs") == 5
    assert len(await store.rows("job_event", event="submit")) == 5


async def test_pending_jobs_and_known_keys_are_found_by_user(store):
    first, *_ = await store.submit("alice", "alice", "bob")
    [keyed] = await store.submit("alice", request={"key": "k"})
    await store.write(act, [first], ROOT, NOW, cancel)
    assert await store.read(count_pending) == 3
    assert [await store.read(count_pending, user) for user in ("alice", "bob", "eve")] == [2, 1, 0]
    assert [await store.read(count_pending_of_account, account) for account in ("physics", "none")] == [3, 0]
    wanted = [("alice", "k"), ("bob", "k"), ("alice", "other")]
    assert await store.read(known_keys, wanted) == {("alice", "k"): keyed}
    assert await store.read(known_keys, []) == {}


async def test_the_variety_of_pending_jobs_is_that_of_their_shapes_constraints_and_applications(store):
    await store.configure()
    await store.submit("alice", "alice", "bob")
    await store.submit("alice", request={"constraints": "gpu", "application": "a"})
    [gone] = await store.submit("alice", request={"constraints": "gone"})
    await store.write(act, [gone], ROOT, NOW, cancel)
    found = await store.read(variety_of_user, "alice")
    assert [len(keys) for keys in found] == [2, 1, 1]
    assert found.constraints == {hash("gpu")}
    assert found.applications == {hash(("root.default", "a"))}
    assert (await store.read(shapes_of_all)).shapes == found.shapes
    assert await store.read(variety_of_user, "eve") == (set(), set(), set())


async def test_new_pending_jobs_are_counted_by_kind_from_an_event_on(store):
    await store.configure()
    await store.submit("alice")
    before = await store.read(newest)
    one, *_ = await store.submit("bob", "bob", request={"application": "a"})
    [gone] = await store.submit("bob", request={"constraints": "gone"})
    await store.write(act, [gone], ROOT, NOW, cancel)
    array = ArrayRequest((range(10),), None)
    await store.write(
        insert_jobs, [NewJob(accepted=accepted("alice", array=array), actor="alice", at=NOW)], store.catalog
    )
    last = await store.read(newest)
    found = sorted(await store.read(pending_between, before.event, last.event))
    shape = found[0].shape
    assert found == [
        NewPending("alice", "physics", shape, None, "root.default", None, 1, 10),
        NewPending("bob", "physics", shape, None, "root.default", "a", 2, 2),
    ]
    assert last == Newest(before.version, before.event + 5)
    assert await store.read(pending_between, last.event, last.event) == []
    await store.write(act, [one], ROOT, NOW, hold)
    after = await store.read(newest)
    assert await store.read(pending_between, last.event, after.event) == [], "it counted before"


async def test_new_pending_jobs_are_counted_once_if_many_events_are_gone(store):
    await store.configure()
    await store.submit(*["alice"] * (2 * AT_ONCE + 2))
    await store.write(lambda c: c.execute(delete(job_events).where(job_events.c.id.between(10, AT_ONCE))))
    found = await store.read(pending_between, 1, 2 * AT_ONCE + 1)
    assert sum(kind.jobs for kind in found) == 8 + AT_ONCE + 1


async def test_many_jobs_keep_their_order(store):
    await store.configure()
    users = ["alice", "bob", "alice"] * 300
    new = [NewJob(accepted=accepted(user), actor=user, at=NOW) for user in users]
    ids = await store.write(insert_jobs, new, store.catalog)
    assert ids == list(range(1, len(users) + 1))
    assert [row["user"] for row in sorted(await store.rows("jobs"), key=lambda row: row["id"])] == users


async def test_a_users_first_job_makes_the_association(store):
    await store.configure()
    id_ = await store.write(association_of, accepted("eve"), store.catalog, NOW)
    assert await store.write(association_of, accepted("eve"), store.catalog, NOW) == id_


async def test_changes_write_events_and_columns(store):
    [job] = await store.submit("alice")
    columns = {"held": True, "eligible_at": None}
    change = Change(job=job, state=State.PENDING, event=Event.HOLD, actor="root", cause="asked", columns=columns)
    await store.write(apply_changes, [change], NOW + 1)
    found = (await store.read(read_states, [job, 99]))[job]
    assert (found.state, found.held, found.user) == (State.PENDING, True, "alice")
    [event] = await store.rows("job_event", event="hold")
    assert (event["job_id"], event["actor"], event["cause"], event["at"]) == (job, "root", "asked", NOW + 1)


async def test_an_impossible_change_writes_nothing(store):
    [one, other] = await store.submit("alice", "bob")
    changes = [
        Change(job=one, state=State.PENDING, event=Event.CANCEL, actor="root"),
        Change(job=other, state=State.PENDING, event=Event.COMPLETE, actor="root"),
    ]
    with pytest.raises(InvalidTransition):
        await store.write(apply_changes, changes, NOW)
    assert {row["state"] for row in await store.rows("job")} == {"pending"}


async def test_an_impossible_event_comes_with_the_jobs_events(store):
    [job] = await store.submit("alice")
    await store.write(act, [job], ROOT, NOW + 5, cancel)
    events = await store.read(past_events, job)
    assert [(past.event, past.state, past.at, past.actor) for past in events] == [
        ("submit", "pending", NOW, "alice"),
        ("cancel", "cancelled", NOW + 5, "root"),
    ]

    def impossible(connection):
        with tells_story(connection):
            raise InvalidTransition(job, State.CANCELLED, Event.START)

    with pytest.raises(InvalidTransition) as caught:
        await store.read(impossible)
    assert caught.value.events == tuple(events)


async def test_cancel_hold_and_release(world):
    assert (await world.write(act, [FIRST, HELD], ROOT, NOW, cancel, dry_run=True)).done == [FIRST, HELD]
    assert (await world.write(act, [FIRST, 99], ROOT, NOW, cancel)).done == [FIRST]
    assert (await world.write(act, [HELD], ALICE, NOW, release)).done == [HELD]
    reply = await world.write(act, [SECOND, HELD], ALICE, NOW, hold)
    assert (reply.done, [failed.code for failed in reply.failed]) == ([HELD], ["not_owner"])
    states = await world.read(read_states, [FIRST, HELD])
    assert (states[FIRST].state, states[HELD].held) == (State.CANCELLED, True)


async def test_who_holds_a_job_is_recorded_and_its_owner_ends_only_an_own_hold(world):
    assert (await world.read(read_states, [HELD]))[HELD].held_by == "alice"
    await world.write(act, [FIRST, HELD], ROOT, NOW, hold)
    states = await world.read(read_states, [FIRST, HELD])
    assert [states[job].held_by for job in (FIRST, HELD)] == ["root", "root"]
    reply = await world.write(act, [FIRST, HELD], ALICE, NOW, release)
    assert (reply.done, [failed.code for failed in reply.failed]) == ([], ["admin_hold", "admin_hold"])
    await world.write(act, [FIRST], ALICE, NOW, hold)
    assert (await world.read(read_states, [FIRST]))[FIRST].held_by == "root"
    [row] = await world.rows("job", id=FIRST)
    assert (row["held_by"], row["reason"], row["reason_fact"]) == ("root", "held", "the administrator root holds it")
    assert (await world.write(act, [FIRST, HELD], ROOT, NOW, release)).done == [FIRST, HELD]
    states = await world.read(read_states, [FIRST, HELD])
    assert [(states[job].held, states[job].held_by) for job in (FIRST, HELD)] == [(False, None), (False, None)]


async def test_a_running_job_ends_once_its_nodes_have_ended_it(world):
    await world.write(act, [RUNNING], ROOT, NOW, cancel)
    assert (await world.read(read_states, [RUNNING]))[RUNNING].cancelled_by == "root"
    takens = await world.take("n1", "n2")
    [allocation] = {id_ for taken in takens for id_ in taken.cancels}
    for node in ("n1", "n2"):
        await world.report(node, allocation, RUNNING, "ended", cause="cancel", signal=15)
    assert (await world.read(read_states, [RUNNING]))[RUNNING].state is State.CANCELLED


async def test_who_cancelled_a_running_job_is_recorded_with_the_gateway(world):
    through = ALICE._replace(user="bob", via="gpu2")
    for asker in (through, ROOT):
        await world.write(act, [RUNNING], asker, NOW, cancel)
        state = (await world.read(read_states, [RUNNING]))[RUNNING]
        assert (state.cancelled_by, state.cancelled_via) == (asker.user, asker.via)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (JobFilter(users=["alice"]), [FIRST, HELD, 8]),
        (JobFilter(states=["running"]), [RUNNING]),
        (JobFilter(queues=["ROOT.OTHER"], accounts=["physics"], partitions=["default"]), [SECOND]),
        (JobFilter(id=2), []),
        (JobFilter(ids=[SECOND, FIRST], qos=["normal"], names=["true"]), [FIRST, SECOND]),
        (JobFilter(after=BLOCKED, limit=1), [8]),
    ],
)
async def test_active_jobs_are_selected_by_a_filter(world, wanted, expected):
    assert await world.read(select_ids, wanted) == expected


# --- updates ------------------------------------------------------------------------------------------------


def task(asker=ROOT, **fields):
    return Task(update=JobUpdate(**fields), asker=asker, tables=admission_tables(), now=NOW)


async def test_an_update_changes_what_it_names(store):
    [job] = await store.submit("alice")
    wanted = task(urgency=20, name="new", nodes=2)
    judgement = await store.read(judge, [job, 99], wanted)
    reply = await store.write(write_update, judgement, wanted, store.catalog)
    assert (reply.done, [failed.code for failed in reply.failed]) == ([job], ["unknown_job"])
    [row] = await store.rows("job", id=job)
    assert (row["urgency"], row["name"], row["nodes"]) == (20, "new", 2)
    assert len(await store.rows("job_event", event="update")) == 1


async def test_an_update_that_others_overtook_is_judged_again(store):
    [job] = await store.submit("alice")
    wanted = task(comment="new")
    judgement = await store.read(judge, [job], wanted)
    assert await store.read(judge_again, judgement, wanted, wanted, lambda found: found) == judgement
    await store.write(act, [job], ROOT, NOW, cancel)
    again = await store.read(judge_again, judgement, wanted, wanted, lambda found: found)
    assert [failed.code for failed in again.failed] == ["not_pending"]
    assert (await store.write(write_update, again, wanted, store.catalog)).done == []


# --- dependencies -------------------------------------------------------------------------------------------


async def test_what_jobs_wait_for(world):
    wanted = [Dependency(type="afterok", job=RUNNING), Dependency(type="afterany", job=99)]
    progress = await world.read(progress_of, [RUNNING, 99])
    assert {job: (found.state, found.has_begun) for job, found in progress.items()} == {RUNNING: (State.RUNNING, True)}
    assert await world.read(known_jobs, [RUNNING, 99]) == {RUNNING}
    assert await world.read(still_blocked, [BLOCKED, FIRST], 0, NOW) == {BLOCKED}
    assert await world.read(still_blocked, [BLOCKED], 10_000, NOW) == set()
    [blocked] = await world.read(blocked_jobs, [BLOCKED, FIRST])
    assert (blocked.job, blocked.depends_on) == (BLOCKED, tuple(wanted[:1]))


async def test_a_job_that_waits_for_its_begin_time_alone_shows_it(world):
    await world.write(show_reason, [BLOCKED, FIRST], "begin time", NOW)
    reasons = {row["id"]: row["reason"] for row in await world.rows("job")}
    assert (reasons[BLOCKED], reasons[FIRST]) == ("begin time", None)


# --- applications -------------------------------------------------------------------------------------------


async def application_states(store):
    return {row["name"]: (row["state"], bool(row["failed"])) for row in await store.rows("applications")}


async def test_an_application_lives_as_its_jobs_do(store):
    await store.add_nodes("n1")
    jobs = await store.submit("alice", "bob", request={"application": "app"})
    [id_] = set((await store.read(memberships, jobs)).applications.values())
    queue = store.catalog.queues["default", "root.default"]
    assert await store.write(application_of, queue, "app", NOW) == id_
    assert await store.write(application_of, queue, None, NOW) is None
    assert await application_states(store) == {"app": ("accepted", False)}
    await allocate(store, jobs[0], "n1")
    assert await application_states(store) == {"app": ("starting", False)}
    assert await store.read(overdue_applications, NOW + 200) == {}
    assert await store.read(overdue_applications, NOW + 400) == {id_: ApplicationEvent.TIMEOUT}
    await store.write(follow, {id_: [ApplicationEvent.TIMEOUT]}, NOW + 400)
    assert await application_states(store) == {"app": ("running", False)}
    await store.write(follow, {id_: [ApplicationEvent.EMPTY]}, NOW + 401, failed=[id_])
    assert await application_states(store) == {"app": ("running", True)}, "jobs of it are left"


async def test_applications_that_wait_for_others_are_kept_of_the_newest_two_generations(store):
    for generation in (1, 2, 3):
        await store.write(save_waiting_applications, generation, [7, 5])
    await store.write(save_waiting_applications, 3, [])
    rows = await store.rows("generation_waiting_applications")
    assert {row["generation"] for row in rows} == {2}
