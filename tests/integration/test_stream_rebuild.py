"""``stream.check`` finds what streams have lost; ``stream.rebuild`` makes them anew from the records."""

from __future__ import annotations

import json
import time

import builder
import pytest
from integration.stage import ROOT, a_cluster

from rankd.bus.stream_watch import StreamWatch
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.services.intake import stream_verbs
from rankd.services.intake.relay import Relay
from rankd.services.intake.stream_verbs import StreamVerbs
from rankd.wire.subject import STREAM_DEAD_LETTERS, STREAM_EVENTS, STREAM_SUBMISSIONS


class Stage:
    """An intake's relay and verbs, and the streams as the broker has them."""

    def __init__(self, cluster) -> None:
        self.cluster = cluster
        self.stream = cluster.bus.jetstream
        self.relay = Relay(cluster.database, cluster.bus, "intake", time.time)
        watch = StreamWatch(cluster.bus)
        self.verbs = StreamVerbs(cluster.database, cluster.bus, self.relay, watch, "intake", time.time)

    async def problems(self) -> list[str]:
        found = (await self.verbs.check(ROOT, b"{}")).problems
        return [problem for problem in found if "consumer intake" not in problem]  # nobody reads submissions here

    async def rebuild(self, body=b"{}"):
        done = await self.verbs.rebuild(ROOT, body)
        while await self.relay.run_once():
            pass
        return done

    async def events(self) -> list[int]:
        """The ids of the events of alice's jobs in the stream, in its order."""
        info = await self.stream.stream_info(STREAM_EVENTS)
        ids = []
        for sequence in range(info.state.first_seq, info.state.last_seq + 1):
            message = await self.stream.get_msg(STREAM_EVENTS, sequence)
            if message.subject == "rankd.v1.event.job.alice":
                ids += [event["id"] for event in json.loads(message.data)["events"]]
        return ids

    async def enqueue(self):
        return await self.stream.publish("rankd.v1.enqueue.alice", b"{}")


@pytest.fixture
async def stage(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_verbs, "DRAIN_S", 0.2)
    builder.new_database(tmp_path)
    async with a_cluster(tmp_path, broker.url, roles=("intake",)) as cluster:
        yield Stage(cluster)


async def submit(stage, number):
    await stage.cluster.submit(*[builder.accepted(user="alice") for _ in range(number)], at=time.time())
    while await stage.relay.run_once():
        pass


async def test_streams_that_are_as_they_must_be_have_no_problem(stage):
    await submit(stage, 3)
    assert await stage.problems() == []


async def test_lost_events_are_found_and_published_again_once_and_in_order(stage):
    await submit(stage, 5)
    before = await stage.events()
    await stage.stream.purge_stream(STREAM_EVENTS)
    [problem] = await stage.problems()
    assert "RANKD_EVENTS lacks event 5" in problem
    done = await stage.rebuild()
    assert done.events >= 5
    assert done.lost == 0
    assert await stage.events() == before == [1, 2, 3, 4, 5]
    assert await stage.problems() == []
    await submit(stage, 1)
    assert await stage.events() == [1, 2, 3, 4, 5, 6]


async def test_a_missing_stream_and_a_changed_one_are_found_and_made_right(stage):
    await submit(stage, 1)
    await stage.stream.delete_stream(STREAM_DEAD_LETTERS)
    found = (await stage.stream.stream_info(STREAM_EVENTS)).config
    await stage.stream.update_stream(found.evolve(max_age=6000.0))
    await stage.stream.delete_consumer(STREAM_EVENTS, "notifier")
    said = "\n".join(await stage.problems())
    assert "the stream RANKD_DEAD_LETTERS is missing" in said
    assert "the stream RANKD_EVENTS has max_age 6000" in said
    assert "the consumer notifier of RANKD_EVENTS is missing" in said
    await stage.rebuild()
    assert await stage.problems() == []


async def test_submissions_that_wait_are_not_lost_without_being_asked(stage):
    await stage.enqueue()
    with pytest.raises(Refused, match="1 submissions wait") as refusal:
        await stage.rebuild()
    assert refusal.value.status == 409
    await stage.enqueue()  # the stream takes new ones again
    assert (await stage.stream.stream_info(STREAM_SUBMISSIONS)).state.messages == 2
    assert (await stage.rebuild(b'{"lose_enqueued": true}')).lost == 2
    await stage.enqueue()
    assert (await stage.stream.stream_info(STREAM_SUBMISSIONS)).state.messages == 1


async def test_a_stream_that_was_left_closed_is_opened_at_the_next_start(stage):
    """The process died in the middle of a rebuild."""
    await stream_verbs.close_submissions(stage.cluster.bus)
    with pytest.raises(Exception, match="message size exceeds"):
        await stage.enqueue()
    await stream_verbs.open_submissions(stage.cluster.bus)
    await stage.enqueue()
    assert await stage.problems() == []


@pytest.mark.parametrize("verb", ["check", "rebuild"])
async def test_only_administrators_may(stage, verb):
    with pytest.raises(Refused, match="administrators only"):
        await getattr(stage.verbs, verb)(Submitter("alice", privileged=False), b"{}")
