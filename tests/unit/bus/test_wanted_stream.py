"""What streams and consumers look like."""

from rankd.bus.wanted_stream import (
    LEAST_STREAM_BYTES,
    differences,
    notifiers_consumer,
    pulled_consumer,
    wanted_streams,
)


def test_the_streams_share_the_bytes_and_have_as_many_copies():
    streams = wanted_streams(LEAST_STREAM_BYTES, 3)
    assert sum(one.max_bytes for one in streams) == LEAST_STREAM_BYTES
    assert {one.num_replicas for one in streams} == {3}
    assert {one.num_replicas for one in wanted_streams(LEAST_STREAM_BYTES)} == {1}


def test_consumers_have_as_many_copies_as_their_streams():
    """0 or nothing means that to the server."""
    for consumer in (notifiers_consumer(), pulled_consumer("intake", ["a"])):
        assert not consumer.num_replicas
        assert consumer.durable_name


def test_only_what_differs_is_named():
    [first, *_] = wanted_streams(LEAST_STREAM_BYTES, 3)
    assert differences(first, first.evolve(max_bytes=1, description="x", max_msg_size=-1, max_age=0)) == []
    assert differences(first, first.evolve(num_replicas=1, max_msg_size=1)) == [
        "num_replicas 1 in place of 3",
        "max_msg_size 1 in place of -1",
    ]
    consumer = pulled_consumer("intake", ["a"])
    assert differences(consumer, consumer.evolve(num_replicas=0)) == []
    assert differences(consumer, consumer.evolve(ack_wait=1.0)) == ["ack_wait 1.0 in place of 5.0"]
