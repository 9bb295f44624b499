"""The relay on a real database and a real broker: what is in the records is in the stream, in order, once."""

from __future__ import annotations

import asyncio
import json
import time

import builder
import pytest
from integration.stage import NOW, PATIENCE_S, ROOT, a_cluster

from rankd.core.change import job_action
from rankd.core.errors import RoleLost, Unavailable
from rankd.services.intake.relay import BATCH, PER_MESSAGE, TOGETHER, Relay
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.queue_event import note_made


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def a_stage(broker, tmp_path):
    return a_cluster(tmp_path, broker.url, roles=("intake",))


async def relay_all(relay: Relay) -> None:
    while await relay.run_once():
        pass


async def published(cluster, *, queues: bool = False) -> list[tuple[str, list[dict]]]:
    """What is in the stream: (subject, transitions), in order; ``queues``: of queues, else of anything else."""
    stream = cluster.bus.jetstream
    last = (await stream.stream_info("RANKD_EVENTS")).state.last_seq
    stored = [await stream.get_msg("RANKD_EVENTS", number) for number in range(1, last + 1)]
    return [
        (message.subject, json.loads(message.data)["events"])
        for message in stored
        if (".event.queue." in message.subject) is queues
    ]


def heard(messages) -> list[tuple[int, int, str]]:
    """What a listener keeps who drops what comes twice: (id, job, event), in the order of arrival."""
    seen: dict[int, tuple[int, int, str]] = {}
    for _, events in messages:
        for event in events:
            seen.setdefault(event["id"], (event["id"], event["job"], event["event"]))
    return list(seen.values())


def recorded(cluster) -> list[tuple[int, int, str]]:
    return cluster.rows("SELECT id, job_id, event FROM job_events ORDER BY id")


async def test_a_user_gets_one_message_with_his_own_transitions_in_order(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await cluster.submit(builder.accepted("alice"), builder.accepted("bob"), builder.accepted("alice"))
        await cluster.act(job_action.hold, 1, at=NOW + 1)
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        alice, bob = await published(cluster)
        assert (alice[0], bob[0]) == ("rankd.v1.event.job.alice", "rankd.v1.event.job.bob")
        assert [(e["id"], e["job"], e["event"], e["actor"]) for e in alice[1]] == [
            (1, 1, "submit", "alice"),
            (3, 3, "submit", "alice"),
            (4, 1, "hold", ROOT.user),
        ]
        assert bob[1] == [
            {
                "id": 2,
                "job": 2,
                "event": "submit",
                "state": "pending",
                "at": NOW,
                "actor": "bob",
                "cause": None,
                "via": None,
            }
        ]


async def test_messages_of_several_users_are_sent_before_the_first_is_acknowledged(broker, tmp_path, monkeypatch):
    async with a_stage(broker, tmp_path) as cluster, asyncio.timeout(PATIENCE_S):
        users = [f"user{number}" for number in range(TOGETHER)]
        await cluster.submit(*map(builder.accepted, users))
        all_sent, publish, sent = asyncio.Event(), cluster.bus.publish_durably, []

        async def wait_for_all(subject, message, message_id):
            if ".event.job." in subject:
                sent.append(message_id)
                if len(sent) == TOGETHER:
                    all_sent.set()
                await all_sent.wait()
            await publish(subject, message, message_id)

        monkeypatch.setattr(cluster.bus, "publish_durably", wait_for_all)
        relay = Relay(cluster.database, cluster.bus, "intake", time.time)
        await relay_all(relay)
        assert ids(await published(cluster)) == list(range(1, TOGETHER + 1))


async def test_what_was_not_acknowledged_is_sent_again_before_what_comes_later(broker, tmp_path, monkeypatch):
    async with a_stage(broker, tmp_path) as cluster:
        users = ["alice", "bob", "carol"] * (PER_MESSAGE + 1)
        await cluster.submit(*map(builder.accepted, users))
        publish, refused = cluster.bus.publish_durably, []

        async def refuse_bob(subject, message, message_id):
            if subject.endswith("bob") and not refused:
                refused.append(message_id)
                raise Unavailable("bus_unavailable", "not acknowledged")
            await publish(subject, message, message_id)

        monkeypatch.setattr(cluster.bus, "publish_durably", refuse_bob)
        relay = Relay(cluster.database, cluster.bus, "intake", time.time)
        await relay.run_once()
        assert not cluster.rows("SELECT event_id FROM relay_marks WHERE name = 'job_events'")
        await relay_all(relay)
        messages = await published(cluster)
        assert heard(messages) != recorded(cluster), "bob's come later"
        assert ids(messages) == [id_ for id_, *_ in recorded(cluster)], "something was published twice"
        for user in set(users):
            of_user = heard(message for message in messages if message[0].endswith(user))
            assert of_user == sorted(of_user)
            assert len(of_user) == PER_MESSAGE + 1


async def test_what_was_stored_without_an_answer_is_not_sent_again(broker, tmp_path, monkeypatch):
    """The broker forgets the ids of messages after some minutes, and an outage may last longer."""
    async with a_stage(broker, tmp_path) as cluster:
        await cluster.submit(builder.accepted("alice"), builder.accepted("bob"))
        publish, sent = cluster.bus.publish_durably, []

        async def lose_an_answer(subject, message, message_id):
            sent.append(subject)
            await publish(subject, message, message_id)
            if subject.endswith("bob"):
                raise Unavailable("bus_unavailable", "the answer is lost")

        monkeypatch.setattr(cluster.bus, "publish_durably", lose_an_answer)
        relay = Relay(cluster.database, cluster.bus, "intake", time.time)
        await relay.run_once()
        await relay_all(relay)
        assert [subject for subject in sent if ".event.job." in subject] == [
            "rankd.v1.event.job.alice",
            "rankd.v1.event.job.bob",
        ]
        assert cluster.rows("SELECT event_id FROM relay_marks WHERE name = 'job_events'") == [(2,)]


async def test_what_happens_to_queues_is_published(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        before = builder.parent("root", builder.leaf("root.a"), builder.leaf("root.b"))
        after = builder.parent("root", builder.leaf("root.a", max={"vcore": 1000}))
        relay = Relay(cluster.database, cluster.bus, "intake", time.time)
        for at, root in ((NOW + 1, before), (NOW + 2, after), (NOW + 3, after)):
            configuration = builder.configuration(root=root)
            await cluster.database.write(lambda c, at=at, conf=configuration: sync_catalog(c, conf, at))
        await relay_all(relay)
        events = [event for _, events in await published(cluster, queues=True) for event in events]
        told = sorted((event["at"] - NOW, event["queue"], event["event"]) for event in events if event["at"] > NOW)
        assert told == [
            (1, "root.a", "made"),
            (1, "root.b", "made"),
            (1, "root.default", "removed"),
            (2, "root.a", "changed"),
            (2, "root.b", "removed"),
        ]
        assert {subject for subject, _ in await published(cluster, queues=True)} >= {"rankd.v1.event.queue.root%2Ea"}


@pytest.mark.parametrize(("jobs", "shown"), [("all", "alice"), ("counts", None), ("own", None)])
async def test_the_maker_of_a_queue_is_named_only_where_users_see_each_other(broker, tmp_path, jobs, shown):
    async with a_stage(broker, tmp_path) as cluster:
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        configured = {event["actor"] for _, events in await published(cluster, queues=True) for event in events}
        assert configured == {"configuration"}
        await cluster.database.write(lambda c: note_made(c, "default", ["root.made"], "alice", NOW))
        privacy = [jobs]
        relay = Relay(cluster.database, cluster.bus, "intake", time.time, lambda: privacy[0])
        await relay_all(relay)
        made = [events for subject, events in await published(cluster, queues=True) if "made" in subject]
        assert [[event["actor"] for event in events] for events in made] == [[shown]]
        for other in ("all", "own"):  # a relay that dies before it notes it, and begins with another setting
            await cluster.database.write(lambda c: c.exec_driver_sql("DELETE FROM relay_marks"))
            before = len(await published(cluster, queues=True))
            await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time, lambda seen=other: seen))
            assert len(await published(cluster, queues=True)) == before


async def test_more_events_than_fit_in_one_look_are_all_published_in_order(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await cluster.submit(*[builder.accepted()] * (2 * BATCH + 10))
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        messages = await published(cluster)
        assert [len(events) for _, events in messages] == [*[PER_MESSAGE] * (2 * BATCH // PER_MESSAGE), 10]
        assert heard(messages) == recorded(cluster)


async def test_the_longest_names_make_no_message_that_the_broker_does_not_take(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await cluster.submit(*[builder.accepted("\N{GRINNING FACE}" * 256)] * BATCH)
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        assert heard(await published(cluster)) == recorded(cluster)


async def test_a_relay_that_dies_before_it_notes_it_publishes_only_what_came_since(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await cluster.submit(builder.accepted(), builder.accepted("bob"), builder.accepted())
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        for job in (1, 3):  # what the dead one's last message held, is part of a longer one now
            await cluster.database.write(lambda c: c.exec_driver_sql("DELETE FROM relay_marks"))
            await cluster.act(job_action.cancel, job)
            await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        alice = [
            [event["id"] for event in events] for subject, events in await published(cluster) if "alice" in subject
        ]
        assert alice == [[1, 3], [4], [5]]
        assert ids(await published(cluster)) == [id_ for id_, *_ in recorded(cluster)]


async def test_a_new_database_beside_an_old_stream_publishes_its_events_under_the_same_ids(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster:
        await cluster.submit(builder.accepted())
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        await cluster.database.write(lambda c: c.exec_driver_sql("DELETE FROM relay_marks"))
        await cluster.database.write(lambda c: c.exec_driver_sql("UPDATE job_events SET at = at + 1"))
        await cluster.submit(builder.accepted())
        await relay_all(Relay(cluster.database, cluster.bus, "intake", time.time))
        assert [len(events) for _, events in await published(cluster)] == [1, 2]


def ids(messages) -> list[int]:
    return sorted(event["id"] for _, events in messages for event in events)


async def test_nothing_is_missing_after_an_outage_of_the_broker_and_a_restart(broker, tmp_path):
    async with a_stage(broker, tmp_path) as cluster, asyncio.timeout(PATIENCE_S):
        async with asyncio.TaskGroup() as group:
            relay = Relay(cluster.database, cluster.bus, "intake", time.time)
            relaying = group.create_task(relay.run())
            for _ in range(3):
                await cluster.submit(builder.accepted("alice"), builder.accepted("bob"))
                broker.kill()
                relay.wake.set()
                await cluster.submit(builder.accepted("alice"), builder.accepted("carol"))
                broker.start()
                relay.wake.set()
            await cluster.act(job_action.cancel, *range(1, 13))
            relaying.cancel()
        relay = Relay(cluster.database, cluster.bus, "intake", time.time)
        while await cluster.database.read(behind):
            await relay.run_once()
        messages = await published(cluster)
        assert sorted(heard(messages)) == recorded(cluster)
        assert ids(messages) == [id_ for id_, *_ in recorded(cluster)]
        for user in ("alice", "bob", "carol"):
            of_user = [message for message in messages if message[0].endswith(user)]
            assert heard(of_user) == sorted(heard(of_user))


def behind(connection) -> bool:
    mark = "SELECT event_id FROM relay_marks WHERE name = 'job_events'"
    query = f"SELECT (SELECT max(id) FROM job_events) > coalesce(({mark}), 0)"
    return bool(connection.exec_driver_sql(query).scalar_one())


async def test_only_the_holder_of_the_role_moves_the_mark(broker, tmp_path):
    """One that was paused, and goes on after another has taken over, would move it back."""
    async with a_stage(broker, tmp_path) as cluster:
        await cluster.submit(builder.accepted())
        await cluster.database.write(lambda c: c.exec_driver_sql("UPDATE roles SET epoch = epoch + 1"))
        with pytest.raises(RoleLost):
            await Relay(cluster.database, cluster.bus, "intake", time.time).run_once()
        assert cluster.rows("SELECT * FROM relay_marks") == []
