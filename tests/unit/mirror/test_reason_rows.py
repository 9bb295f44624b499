import numpy as np

from rankd.core.placement.partition_state import PartitionState
from rankd.core.placement.problem import CycleOutcome, WaitReason
from rankd.mirror.pending_kinds import ANY_APPLICATION, PendingKinds, Rules
from rankd.mirror.reason_rows import ReasonRows
from rankd.store.feed.pending_kind import PendingBatch
from rankd.store.feed.shape import JobShape


def shape(_job):
    return JobShape("default", 1, 1, 1000, {"vcore": 1000}, None, exclusive=False)


def kinds_of(*shapes):
    """One plain kind for each of these shapes; shape 7 is kind 0 if it comes first."""
    kinds = PendingKinds(Rules(None, frozenset(), frozenset()))
    rows = [(at, 1, 2, 1, -1, own, 0.0, None, 1, None, None) for at, own in enumerate(shapes, start=1)]
    kinds.of_batch(PendingBatch.of_rows(rows), shape)
    return kinds


def outcome(common=(), own=()):
    return CycleOutcome(
        placements=(), reservations=(), own=tuple(own), common=common, by_job={}, looked_at=0, backfilled=0
    )


def shown(rows):
    return sorted((row.queue, row.shape, row.reason, row.application) for row in rows)


def test_a_common_reason_is_one_row_and_that_of_a_leaf_another():
    reasons, nothing = ReasonRows(kinds_of(7, 8)), PartitionState()
    common, own = (WaitReason(None, 0, "resources", "vcore"),), [WaitReason(2, 1, "queue quota", "root.q")]
    assert shown(reasons.of([outcome(common, own)], [nothing])) == [
        (0, 7, "resources", ANY_APPLICATION), (2, 8, "queue quota", ANY_APPLICATION),
    ]  # fmt: skip


def test_the_same_reasons_give_the_same_object():
    reasons, nothing = ReasonRows(kinds_of(7, 8)), PartitionState()
    common = (WaitReason(None, 0, "resources", "vcore"),)
    first = reasons.of([outcome(common)], [nothing])
    assert reasons.of([outcome(common)], [nothing]) is first
    more = (*common, WaitReason(None, 1, "resources", "gpu"))
    assert shown(reasons.of([outcome(more)], [nothing])) == [
        (0, 7, "resources", ANY_APPLICATION), (0, 8, "resources", ANY_APPLICATION),
    ]  # fmt: skip
    assert reasons.of([outcome(())], [nothing]) == frozenset()


def test_kinds_that_got_other_numbers_are_looked_up_again():
    kinds, nothing = kinds_of(7, 8), PartitionState()
    reasons, common = ReasonRows(kinds), (WaitReason(None, 0, "resources", "vcore"),)
    assert shown(reasons.of([outcome(common)], [nothing])) == [(0, 7, "resources", ANY_APPLICATION)]
    kinds.forget(np.array([1]), np.array([True]))  # shape 8 becomes kind 0
    assert shown(reasons.of([outcome(common)], [nothing])) == [(0, 8, "resources", ANY_APPLICATION)]
