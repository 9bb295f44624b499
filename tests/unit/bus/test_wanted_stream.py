"""What streams and consumers look like."""

from rankd.bus.wanted_stream import LEAST_STREAM_BYTES, notifiers_consumer, pulled_consumer, wanted_streams


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
