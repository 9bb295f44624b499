"""What a worker is sent is what the service has."""

import msgspec
import numpy as np
from builder import groups

from rankd.core.ranking.name import Names
from rankd.plugin.message import GroupArrays, sendable


def test_groups_arrive_as_they_were_sent():
    sent = groups(fairshares=[0.25, 0.5], qos_factors=[float("nan"), 0.1])
    received = msgspec.msgpack.decode(msgspec.msgpack.encode(GroupArrays.of(sent)), type=GroupArrays)
    found = received.groups(Names(), [{"vcore": 1}])
    for name in ("fairshares", "qos_priorities", "qos_factors", "queue_factors", "partition_nodes"):
        np.testing.assert_array_equal(getattr(found, name), getattr(sent, name))
        assert not getattr(found, name).flags.writeable
    assert found.shapes == [{"vcore": 1}]


def test_an_amount_that_no_message_holds_is_sent_as_the_largest_that_one_does():
    small = [{"vcore": 1}, {"memory": 2**63 - 1}]
    assert sendable(small) is small
    assert sendable([*small, {"vcore": 2**63}]) == [*small, {"vcore": 2**63 - 1}]
    assert msgspec.msgpack.encode(sendable([{"vcore": 2**80}]))
