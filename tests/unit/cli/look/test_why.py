"""``rankd why --gap`` in words."""

from rankd.cli.look.why import closing
from rankd.core.evaluate.gap import Gap, Way


def test_what_is_not_enough_says_how_far_or_why():
    ways = [
        Way(kind="qos", what="high", closes=True, priority=900, short=-100),
        Way(kind="qos", what="low", closes=False, priority=500, short=300),
        Way(kind="qos", what="normal", closes=False, priority=800, short=0),
        Way(kind="queue", what="root.fenced", closes=False, priority=900, short=-100),
    ]
    head, *lines = closing(Gap(job=8, other=7, jobs=2, ways=ways))
    assert head == "What would put it before job 7 (only these two compared):"
    assert lines == [
        "  with QoS high: its priority would be 900",
        "  not with QoS low: 500, 300 short",
        "  not with QoS normal: 800, equal, and still behind",
        "  not with queue root.fenced: 900, more than the other's, but its queue or application is behind",
    ]
