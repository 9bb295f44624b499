"""Queues from partitions: order by tier, the default queue, time limits."""

from rankd.core.slurm.partition import Access, Partition
from rankd.core.slurm.queue import Rules, default_time, make_queues
from rankd.core.slurm.reading import Reading


def made(*partitions, weights=None):
    own, reading = Reading("import"), Reading("slurm.conf")
    queues = make_queues([(one, reading) for one in partitions], Rules(weights=weights or {}), own)
    return {queue.name: queue for queue in queues}, [remark.message for remark in own.remarks]


def part(name, **more):
    return Partition(name=name, line=2, **more)


def test_a_queue_of_a_higher_tier_shows_more_than_any_job_of_a_lower_one():
    queues, remarks = made(
        part("a", tier=1), part("b", tier=50), part("c", tier=7), weights={"age": 10.5, "size": -4.0}
    )
    offsets = [queues[name].offset for name in "acb"]
    assert offsets == [0, 16, 32]
    assert any(remark.startswith("PriorityTier:") for remark in remarks)


def test_one_tier_needs_no_offset_and_weights_may_be_too_large_for_one():
    assert made(part("a", tier=3), part("b", tier=3))[0]["b"].offset == 0
    queues, remarks = made(part("a", tier=1), part("b", tier=2), weights={"age": 2.0**31})
    assert queues["b"].offset == 0
    assert any("too large for offsets" in remark for remark in remarks)


def test_jobs_that_name_no_queue_go_where_the_default_partition_is():
    queues, _ = made(part("a", access=Access(groups=("staff",)), is_default=True, factor=3.0), part("b"))
    assert (queues["default"].access, queues["default"].factor) == (" staff", 3.0)


def test_without_a_default_partition_the_default_queue_is_closed():
    queues, remarks = made(part("a"))
    assert queues["default"].access == " "
    assert any("no partition is the default one" in remark for remark in remarks)
    assert made()[0]["default"].access == "*"


def test_the_time_limit_is_that_of_the_default_partition_and_others_are_named():
    reading = Reading("slurm.conf")
    pair = [(part("a", default_time_s=60.0), reading), (part("b", default_time_s=None, is_default=True), reading)]
    own = Reading("import")
    assert default_time(pair, own) is None
    assert [str(one) for one in reading.remarks] == [
        (
            "slurm.conf:2: partition 'a': a job that names no time limit gets none, as in 'b'; in Slurm it gets 60 s"
            " here; tell users"
        )
    ]
    assert default_time(pair[:1], own) == 60.0
    assert default_time([], own) is None
