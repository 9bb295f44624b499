"""Notifications on their way: noted once, sent, sent again, given up, retried."""

import msgspec
import pytest
from builder import NOW
from contract.store import Store
from contract.world import allocate, end

from rankd.core.admission.submitter import Submitter
from rankd.core.change.job_action import cancel
from rankd.core.errors import RankdError, Refused
from rankd.core.model.array import parse_array
from rankd.core.model.notification import Notify
from rankd.core.model.service_setting import NotificationSettings
from rankd.store.engine.last_id import last_id
from rankd.store.feed.event import read_unpublished
from rankd.store.feed.notification import due_in, missed_events, next_lane, noted_until
from rankd.store.look.failed_notification import failed_notifications
from rankd.store.look.job_detail import job_detail
from rankd.store.look.letter_list import letters
from rankd.store.look.notification_backlog import notification_backlog
from rankd.store.record.array import split_first
from rankd.store.record.dead_letter import stored
from rankd.store.record.job_action import act
from rankd.store.record.job_name import Target
from rankd.store.record.notification import (
    Outcome,
    finish,
    move_noted,
    note_events,
    prune_done,
    send_again,
)
from rankd.store.record.relay_mark import Mark
from rankd.wire.message import DeadLetterFilter

HOOK, MAIL = "https://hooks.example.org/a", "mailto:alice"
LANE = "alice https://hooks.example.org:443"
SETTINGS = NotificationSettings(allow=["https://*/*", "mailto:*@*"], mail_domain="example.org", smtp="smtp://localhost")
ENDS = Notify(on=["end"], to=[HOOK])
FAILED = RankdError("notification_failed", "no answer", "notify")


async def all_events(store: Store) -> list[int]:
    return list(range(1, await store.read(last_id, "job_events") + 1))


async def note(store: Store, settings: NotificationSettings = SETTINGS, now: float = NOW) -> int:
    return await store.write(note_events, await all_events(store), settings, now)


async def ended(store: Store, notify: Notify = ENDS, user: str = "alice") -> int:
    await store.add_nodes("n1")
    [job] = await store.submit(user, request={"notify": notify})
    await allocate(store, job, "n1")
    await end(store, job, "n1")
    return job


async def due(store: Store, lane: str = LANE, now: float = NOW, number: int = 10):
    return await store.read(due_in, lane, number, [], now)


async def test_an_event_is_noted_once_for_each_target(store: Store):
    job = await ended(store, Notify(on=["end"], to=[HOOK, MAIL, HOOK]))
    assert [await note(store) for _ in range(3)] == [2, 0, 0]
    [hook], [mail] = await due(store), await due(store, "mailto")
    assert (hook.parcel.job, hook.parcel.target, mail.parcel.target) == (job, HOOK, MAIL)
    content = hook.parcel.content
    assert (content.event, content.state, content.user, content.exit_status) == ("complete", "completed", "alice", 0)
    assert (hook.parcel.event_id, hook.parcel.place, mail.parcel.place) == (content.id, 0, 1)


async def test_only_what_the_job_wants_is_noted(store: Store):
    await ended(store, Notify(on=["fail", "requeue"], to=[HOOK]))
    await ended(store, Notify(on=["start"], to=[HOOK]), "bob")
    assert await note(store) == 1
    [one] = await due(store, "bob https://hooks.example.org:443")
    assert (one.parcel.content.event, one.parcel.content.exit_status) == ("start", None)


async def test_the_events_are_marked_for_the_notifier(store: Store):
    await ended(store)
    await ended(store, Notify(on=["start"], to=[HOOK]))
    await store.submit("bob")
    found = (await store.read(read_unpublished, 100, 100)).events[Mark.JOBS]
    marked = [event.event.event for event in found if event.event.notifies is True]
    assert marked == ["complete", "start"]


async def test_an_array_starts_once_and_ends_once(store: Store):
    await store.add_nodes("n1")
    notify = Notify(on=["all"], to=[HOOK])
    [array] = await store.submit("alice", array=parse_array("0-1", 10), request={"array": "0-1", "notify": notify})
    tasks = await store.write(split_first, array, 2, "scheduler", NOW)
    for task in tasks:
        await allocate(store, task, "n1")
    [taken] = await store.take("n1")
    for one in taken.starts:
        await store.report("n1", one.allocation, one.job, "started", at=NOW)
    assert await note(store) == 1
    for one in taken.starts:
        await store.report("n1", one.allocation, one.job, "ended", at=NOW, exit_status=0)
    assert await note(store) == 1
    contents = [one.parcel.content for one in await due(store)]
    assert [(one.event, one.job, one.array_job) for one in contents] == [
        ("start", array, None),
        ("complete", array, None),
    ]
    marked = [one.event for one in (await store.read(read_unpublished, 100, 100)).events[Mark.JOBS]]
    assert [one.event for one in marked if one.notifies is True] == ["complete"], "its start is known by now"


async def test_an_array_whose_rest_is_cancelled_did_not_fail(store: Store):
    """Its record ends as failed, since tasks did not complete. But nothing went wrong."""
    await store.add_nodes("n1")
    wants = [Notify(on=[kind], to=[HOOK]) for kind in ("fail", "end")]
    for notify in wants:
        [array] = await store.submit("alice", array=parse_array("0-2", 10), request={"array": "0-2", "notify": notify})
        [task] = await store.write(split_first, array, 1, "scheduler", NOW)
        await allocate(store, task, "n1")
        await end(store, task, "n1")
        await store.write(act, [Target(array)], Submitter("alice", privileged=False), NOW, cancel)
    await note(store)
    contents = [one.parcel.content for one in await due(store)]
    assert [(one.event, one.state, one.job) for one in contents] == [("cancel", "failed", array)]


async def test_tasks_notify_for_themselves_if_asked(store: Store):
    await store.add_nodes("n1")
    notify = Notify(on=["end", "tasks"], to=[HOOK])
    [array] = await store.submit("alice", array=parse_array("5-6", 10), request={"array": "5-6", "notify": notify})
    for task in await store.write(split_first, array, 2, "scheduler", NOW):
        await allocate(store, task, "n1")
        await end(store, task, "n1")
    await note(store)
    contents = [one.parcel.content for one in await due(store)]
    assert [(one.array_job, one.array_task) for one in contents] == [(array, 5), (array, 6)]


async def test_lanes_are_found_one_after_the_other(store: Store):
    await ended(store, Notify(on=["end"], to=[HOOK, MAIL, "https://other.example.org/"]))
    await note(store)
    found, lane = [], ""
    while (lane := await store.read(next_lane, lane)) is not None:
        found.append(lane)
    assert found == [LANE, "alice https://other.example.org:443", "mailto"]


async def test_what_was_sent_is_not_due_and_its_content_is_gone(store: Store):
    await ended(store)
    await note(store)
    [one] = await due(store)
    assert await store.read(due_in, LANE, 10, [one.id], NOW) == [], "it is taken"
    await store.write(finish, [Outcome(one)], NOW)
    assert await due(store) == []
    [row] = await store.rows("notifications")
    assert (row["state"], row["target"], row["body"]) == ("done", "", "")
    assert await note(store) == 0, "a redelivered event makes no second one"
    assert not await store.write(prune_done, NOW)
    await store.write(prune_done, NOW + 7_200)
    assert await store.rows("notifications") == []


async def test_a_failure_is_tried_again_and_then_becomes_a_dead_letter(store: Store):
    job = await ended(store)
    await note(store)
    [one] = await due(store)
    await store.write(finish, [Outcome(one, FAILED, NOW + 30)], NOW)
    assert await due(store) == []
    [again] = await due(store, now=NOW + 30)
    assert again.attempts == 1
    backlog = await store.read(notification_backlog, NOW + 10)
    assert (backlog.waiting, backlog.failing, backlog.oldest_s) == (1, 1, 10.0)
    await store.write(finish, [Outcome(again, FAILED)], NOW + 60)
    await store.write(finish, [Outcome(again, FAILED)], NOW + 60)
    [letter] = await store.rows("dead_letter")
    assert (letter["user"], letter["kind"], letter["code"], letter["message"]) == (
        "alice", "notification", "notification_failed", "no answer",
    )  # fmt: skip
    assert (await store.read(notification_backlog, NOW)).waiting == 0
    payload = (await store.read(stored, [letter["id"]]))[letter["id"]].payload
    assert await store.write(send_again, payload, SETTINGS, NOW + 100) == job
    [retried] = await due(store, now=NOW + 100)
    assert (retried.attempts, retried.first_at, retried.parcel.target) == (0, NOW + 100, HOOK)
    await store.write(finish, [Outcome(retried, FAILED)], NOW + 200)
    assert len(await store.rows("dead_letter")) == 2, "it failed again, which is another letter"


async def test_a_letter_of_another_version_is_refused(store: Store):
    with pytest.raises(Refused, match="can't be read"):
        await store.write(send_again, b"{}", SETTINGS, NOW)


async def test_a_users_jobs_send_so_many_in_an_hour(store: Store):
    settings = msgspec.structs.replace(SETTINGS, max_per_user_per_h=2, retry_for_s=3_600.0)
    await store.add_nodes("n1")
    for _ in range(6):
        await ended(store)
    await ended(store, user="bob")
    assert await note(store, settings) == 5
    assert [len(await due(store, now=NOW + later)) for later in (0, 1_799, 1_801, 3_601)] == [2, 2, 3, 4]
    letters = await store.rows("dead_letter")
    assert [letter["code"] for letter in letters] == ["too_many_notifications"] * 2
    assert len(await due(store, "bob https://hooks.example.org:443")) == 1
    for one in await due(store):
        await store.write(finish, [Outcome(one)], NOW)
    await ended(store)
    assert await note(store, settings, NOW + 10) == 0, "what was sent still counts"


async def test_events_that_the_stream_has_lost_are_found_in_the_records(store: Store):
    await store.submit("alice")
    assert await store.read(noted_until) == 1, "nothing before can notify"
    job = await ended(store)
    after = await store.read(noted_until)
    missed = await store.read(missed_events, after)
    events = await store.rows("job_events", job_id=job)
    assert (missed.events, missed.more) == ([event["id"] for event in events], False)
    assert missed.last == await store.read(last_id, "job_events")
    await store.write(move_noted, missed.last)
    assert await store.read(noted_until) == missed.last
    assert await store.read(missed_events, missed.last) == ([], missed.last, False)


async def test_a_job_shows_its_owner_which_notifications_have_failed(store: Store):
    job = await ended(store, Notify(on=["end"], to=[HOOK, MAIL]))
    other = await ended(store, Notify(on=["end"], to=[HOOK]))
    await note(store)
    assert await store.look(failed_notifications, job, "alice") == []
    [hook, *_], [mail] = await due(store), await due(store, "mailto")
    await store.write(finish, [Outcome(hook, FAILED, NOW + 30), Outcome(mail, FAILED)], NOW)
    [again, over] = (await store.look(job_detail, job, "alice"))["failed_notifications"]
    assert (again["event"], again["target"], again["attempts"], again["again_at"]) == ("complete", HOOK, 1, NOW + 30)
    assert (over["event"], over["target"], over["problem"]) == ("complete", MAIL, "no answer")
    [letter] = await store.look(letters, DeadLetterFilter())
    assert (letter["id"], letter["job"], letter["target"]) == (over["dead_letter"], job, MAIL)
    assert "failed_notifications" not in await store.look(job_detail, job, "bob")
    assert (await store.look(job_detail, other, None))["failed_notifications"] == []
