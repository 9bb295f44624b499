"""Dead letters of any bytes and any size: they hold up nobody, and what a user may keep is limited."""

from __future__ import annotations

import json

import builder
import pytest
from integration.intake_stage import an_intake
from integration.test_enqueued import enqueue, heard
from sqlalchemy import Connection

from rankd.core.change import dead_letter
from rankd.store.engine.url import open_database
from rankd.store.look.letter_list import letters, losses
from rankd.store.record.dead_letter import LONGEST_TEXT, Undelivered, keep, settle, stored
from rankd.wire.message import DeadLetterFilter

PREVIEW = 16 * 2**10
JOB = {"command": ["true"]}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def test_large_letters_of_any_bytes_hold_up_nobody_and_stay_out_of_the_events(broker, tmp_path):
    """A control character is six in JSON, so that such a message grows beyond what the broker takes."""
    async with an_intake(broker, tmp_path) as stage:
        for number in range(10):
            await enqueue(stage.connection, bytes([number]) * 900_000)
        await enqueue(stage.connection, b"\xff\xfe" * 400_000, message_id="binary")
        await enqueue(stage.connection, {**JOB, "queue": "root.nowhere"}, "bob")
        [of_bob] = await heard(stage, "rankd.v1.deadletter.bob", 1)
        [told_bob] = await heard(stage, "rankd.v1.event.job.bob", 1)
        assert json.loads(of_bob["submission"])["queue"] == "root.nowhere"
        assert told_bob["refused"] == [of_bob | {"submission": None}]
        of_alice = await heard(stage, "rankd.v1.deadletter.alice", 11)
        assert [entry["bytes"] for entry in of_alice] == [900_000] * 10 + [800_000]
        assert all(len(entry["submission"]) == PREVIEW for entry in of_alice)
        state = (await stage.connection.jetstream().stream_info("RANKD_EVENTS")).state
        assert state.bytes < 100_000
        assert (await stage.submit()) == 1
        listed = await stage.ask("rankd.v1.admin.root.deadletter.list", {"limit": 5})
        assert [entry["bytes"] for entry in listed.body["letters"]] == [900_000] * 5
        [binary] = (await stage.do("deadletter.list", {"ids": [11]})).body["letters"]
        assert binary["submission"] == "\ufffd" * PREVIEW
        assert stage.rows("SELECT typeof(submission), length(submission), bytes FROM dead_letter WHERE id = 11") == [
            ("text", PREVIEW, 800_000)
        ]


async def test_a_submission_of_ordinary_size_is_retried_whole(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        await enqueue(stage.connection, {**JOB, "env": {"X": "x" * 200_000}, "queue": "root.default.new"})
        await heard(stage, "rankd.v1.deadletter.alice", 1)
        [failed] = (await stage.do("deadletter.retry", {"ids": [1]})).body["failed"]
        assert failed["code"] != "cut_dead_letter"


async def test_what_was_too_large_to_be_kept_whole_is_not_retried(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(dead_letter, "LARGEST_KEPT", 10_000)
    async with an_intake(broker, tmp_path) as stage:
        await enqueue(stage.connection, {**JOB, "env": {"X": "x" * 20_000}, "queue": "nowhere"})
        await heard(stage, "rankd.v1.deadletter.alice", 1)
        [failed] = (await stage.do("deadletter.retry", {"ids": [1]})).body["failed"]
        assert failed["code"] == "cut_dead_letter"
        assert "20" in failed["message"]
        assert (await stage.do("deadletter.drop", {"ids": [1]})).body["done"] == [{"id": 1, "jobs": []}]


async def test_a_request_that_names_one_letter_many_times_settles_it_once(broker, tmp_path):
    async with an_intake(broker, tmp_path) as stage:
        for _ in range(2):
            await enqueue(stage.connection, {**JOB, "queue": "nowhere"})
        await heard(stage, "rankd.v1.deadletter.alice", 2)
        retried = (await stage.do("deadletter.retry", {"ids": [1] * 1_000})).body
        assert (retried["done"], [failed["id"] for failed in retried["failed"]]) == ([], [1])
        dropped = (await stage.do("deadletter.drop", {"ids": [2, 1, 9, 2] * 250})).body
        assert dropped["done"] == [{"id": 2, "jobs": []}, {"id": 1, "jobs": []}]
        assert [(failed["id"], failed["code"]) for failed in dropped["failed"]] == [(9, "unknown_dead_letter")]
        again = (await stage.do("deadletter.drop", {"ids": [2, 2]})).body
        assert [(failed["id"], failed["code"]) for failed in again["failed"]] == [(2, "already_settled")]


async def test_of_very_many_letters_all_are_dropped_part_by_part(broker, tmp_path):
    def work(connection: Connection) -> None:
        keep(connection, [letter(f"a{number}") for number in range(900)])

    async with open_database(tmp_path / "rankd.db", durable=False) as database:
        await database.write(work)
    async with an_intake(broker, tmp_path) as stage:
        dropped = (await stage.do("deadletter.drop", {"ids": list(range(1_000, 0, -1))})).body
        assert [one["id"] for one in dropped["done"]] == list(range(900, 0, -1))
        assert [one["id"] for one in dropped["failed"]] == list(range(1_000, 900, -1))
        assert stage.rows("SELECT DISTINCT state FROM dead_letter") == [("dropped",)]


def letter(source: str, user: str = "alice", payload: bytes = b"{}", message: str = "m") -> Undelivered:
    return Undelivered(
        source=source, user=user, at=1.0, message_id="i" * 5000, payload=payload, code="bad_request", message=message
    )


def waiting(connection: Connection, user: str) -> list[str]:
    found = letters(connection.connection, DeadLetterFilter(users=[user]))
    return [row["message"] for row in found]


async def test_of_one_user_the_oldest_vanish_and_are_counted_and_others_keep_theirs(tmp_path, monkeypatch):
    monkeypatch.setattr(dead_letter, "MOST_LETTERS", 3)
    monkeypatch.setattr(dead_letter, "MOST_BYTES", 1_000)

    def work(connection: Connection) -> None:
        keep(connection, [letter("b1", "bob", message="b1")])
        keep(connection, [letter(f"a{n}", message=f"a{n}") for n in range(5)])
        assert waiting(connection, "alice") == ["a2", "a3", "a4"]
        assert waiting(connection, "bob") == ["b1"]
        assert [
            (loss["user"], loss["letters"], loss["bytes"]) for loss in losses(connection.connection, ["alice"])
        ] == [("alice", 2, 4)]
        keep(connection, [letter("a4", message="again")])  # the same message once more
        assert waiting(connection, "alice") == ["a2", "a3", "a4"]
        keep(connection, [letter("large", payload=b"x" * 900, message="large")])
        assert waiting(connection, "alice") == ["a3", "a4", "large"]
        keep(connection, [letter("larger", payload=b"x" * 5_000, message="larger")])
        assert waiting(connection, "alice") == ["larger"]  # the newest one always stays
        assert losses(connection.connection, ["bob"]) == []

    async with open_database(tmp_path / "rankd.db", durable=False) as database:
        await database.write(work)


async def test_a_settled_letter_holds_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(dead_letter, "MOST_BYTES", 1_000)

    def work(connection: Connection) -> None:
        keep(connection, [letter("one", payload=b"x" * 900)])
        settle(connection, 1, "dropped", "alice", 2.0)
        keep(connection, [letter("two", payload=b"x" * 900)])
        assert losses(connection.connection, None) == []
        assert stored(connection, [1])[1].payload == b""

    async with open_database(tmp_path / "rankd.db", durable=False) as database:
        await database.write(work)


async def test_long_texts_in_a_letter_are_cut(tmp_path):
    def work(connection: Connection) -> None:
        keep(connection, [letter("one", message="m" * 10**6)])
        [row] = letters(connection.connection, DeadLetterFilter())
        assert (len(row["message"]), len(row["message_id"])) == (LONGEST_TEXT, LONGEST_TEXT)

    async with open_database(tmp_path / "rankd.db", durable=False) as database:
        await database.write(work)
