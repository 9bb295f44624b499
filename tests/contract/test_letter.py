"""Submissions that could not be accepted, and messages that could not be decoded."""

import json

import msgspec
from builder import NOW

from rankd.cli.jobs.deadletter import _job
from rankd.core.change.dead_letter import MOST_LETTERS
from rankd.core.errors import Refused
from rankd.store.look.letter_list import letters, losses
from rankd.store.record.dead_letter import (
    Undelivered,
    drop_letters,
    heads,
    keep,
    mark_published,
    settle,
    still_dead,
    stored,
    unpublished,
)
from rankd.store.record.unreadable import KEPT, UnreadableMessage, keep_unreadable
from rankd.wire.message import DeadLetterFilter


def letter(number, user="alice"):
    return Undelivered(
        source=f"jobs-{number}", user=user, at=NOW, message_id=None, payload=b'{"command": [], "env": {"A": "1"}}',
        code="unknown_queue", message="there is no queue 'x'", field="queue",
    )  # fmt: skip


async def test_a_letter_is_kept_once_and_shown_without_its_environment(store):
    await store.write(keep, [letter(1), letter(1), letter(2, "bob")])
    rows = await store.look(letters, DeadLetterFilter())
    assert [(row["user"], row["state"]) for row in rows] == [("alice", "waiting"), ("bob", "waiting")]
    alice, bob = (row["id"] for row in rows)
    assert "env" not in rows[0]["submission"]
    found = await store.read(stored, [alice, 99])
    assert list(found) == [alice]
    assert b'"A"' in found[alice].payload
    assert {id_: one.user for id_, one in (await store.read(heads, [alice, bob, 99])).items()} == {
        alice: "alice", bob: "bob",
    }  # fmt: skip


async def test_a_letter_is_retried_dropped_or_refused_again(store):
    await store.write(keep, [letter(number) for number in (1, 2, 3)])
    await store.write(settle, 1, "retried", "root", NOW, [17])
    await store.write(drop_letters, [2], "alice", NOW)
    await store.write(still_dead, 3, Refused("too_large", "the job is too large"))
    waiting = await store.look(letters, DeadLetterFilter(users=["alice"]))
    assert [(row["id"], row["code"]) for row in waiting] == [(3, "too_large")]
    rows = {row["id"]: row for row in await store.look(letters, DeadLetterFilter(all=True))}
    assert (rows[1]["state"], rows[1]["decided_by"], rows[2]["state"]) == ("retried", "root", "dropped")
    assert (await store.read(stored, [2]))[2].payload == b""
    assert await store.look(letters, DeadLetterFilter(ids=[1, 3], after=1, limit=5)) == waiting


async def test_a_letter_about_a_notification_names_its_task_and_target(store):
    content = {"id": 5, "array_job": 17, "array_task": 3}
    parcel = {"job": 20, "target": "mailto:a@example.org", "content": content}
    told = msgspec.structs.replace(letter(1), kind="notification", payload=json.dumps(parcel).encode())
    await store.write(keep, [told, letter(2)])
    about, other = await store.look(letters, DeadLetterFilter())
    assert {name: about[name] for name in ("job", "target", "array_job", "array_task")} == {
        "job": 20, "target": "mailto:a@example.org", "array_job": 17, "array_task": 3,
    }  # fmt: skip
    assert (_job(about), _job(other)) == ("17_3", "")


async def test_the_oldest_letters_of_a_user_with_too_many_are_counted_as_lost(store):
    await store.write(keep, [letter(number) for number in range(MOST_LETTERS + 2)])
    await store.write(keep, [letter("of-bob", "bob")])
    [lost] = await store.look(losses, None)
    assert (lost["user"], lost["letters"]) == ("alice", 2)
    assert await store.look(losses, ["bob"]) == []


async def test_letters_are_published_once(store):
    await store.write(keep, [letter(1), letter(2)])
    found = await store.read(unpublished, 1)
    assert [one.id for one in found] == [1]
    await store.write(mark_published, found)
    assert [one.id for one in await store.read(unpublished, 9)] == [2]


async def test_the_newest_unreadable_messages_are_kept(store):
    def message(sequence):
        return UnreadableMessage(
            at=NOW, stream="jobs", subject="s", sequence=sequence, n_bytes=500, head=b"\xff" * 300, reason="not JSON"
        )

    await store.write(keep_unreadable, [message(number) for number in range(KEPT)])
    await store.write(keep_unreadable, [message(KEPT - 1), message(KEPT)])
    rows = await store.rows("unreadable_message")
    assert KEPT - 1 <= len(rows) <= KEPT, "a message that was there already may cost the oldest one"
    assert {KEPT - 1, KEPT} <= {row["sequence"] for row in rows}
    assert rows[0]["first_bytes"] == "FF" * 256
