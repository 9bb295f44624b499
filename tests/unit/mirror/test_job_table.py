import numpy as np
from builder import NOW

from rankd.core.admission.dependency import Blocked
from rankd.core.ranking.columns import NO_GROUP
from rankd.mirror.job_table import JobTable, Membership, merged
from rankd.store.feed.job import ChangedJob, ChangedJobs, LoadedJobs
from rankd.store.feed.pending import PendingJobs, ShapeColumn, ShapeRow

MEMBERSHIP = Membership({10: 0, 11: 1}, frozenset())
SHAPE = ShapeRow(2, 1000, {"vcore": 1000, "gpu": 1})
OTHER_SHAPE = ShapeRow(1, 500, {"vcore": 500})


def changed(id_, revision, **columns):
    given = {"association": 1, "queue": 10, "qos": 1, "application": None, "class_value": 0, "urgency": 16, "nodes": 2,
             "vcore": 1000, "shape": 77, "time_limit_s": None, "submitted_at": NOW, "eligible_at": NOW,
             "fixed_priority": None, "state": "pending", "blocked_by": None}  # fmt: skip
    return ChangedJob(id=id_, revision=revision, **given | columns)


def changes(*jobs, shapes=None, blocked=()):
    shapes = {77: SHAPE} if shapes is None else shapes
    return ChangedJobs(max((job.revision for job in jobs), default=0), list(jobs), shapes, list(blocked))


def loaded(*ids, shapes=((77, SHAPE),), new_jobs=0, revision=1):
    n = len(ids)
    integers = {"associations": 1, "queues": 10, "qos": 1, "applications": NO_GROUP, "class_values": 0, "urgencies": 16,
                "shapes": 77}  # fmt: skip
    floats = {"time_limits_s": np.nan, "submitted_at": NOW, "eligible_at": NOW, "fixed_priorities": np.nan}
    pending = PendingJobs(
        ids=np.array(ids, dtype=np.int64),
        blocked=np.zeros(n, dtype=bool),
        **{name: np.full(n, value, dtype=np.int64) for name, value in integers.items()},
        **{name: np.full(n, value) for name, value in floats.items()},
    )
    keys, rows = [key for key, _ in shapes], [row for _, row in shapes]
    return LoadedJobs(revision, pending, ShapeColumn(keys, rows, np.zeros(n, dtype=np.int64)), [], new_jobs)


def table(*ids):
    known = JobTable()
    known.load(loaded(*ids), MEMBERSHIP)
    return known


def ids(known):
    return merged(known.snapshot()).ids.tolist()


def test_jobs_are_loaded_as_columns():
    known = table(3, 5)
    columns = merged(known.snapshot())
    assert known.is_loaded
    assert known.revision == 1
    assert columns.ids.tolist() == [3, 5]
    assert columns.nodes.tolist() == [2, 2]
    assert known.amounts == [{"vcore": 2000, "gpu": 2}]
    assert columns.shapes.tolist() == [0, 0]


def test_nothing_is_loaded_from_an_empty_database():
    known = JobTable()
    known.load(loaded(shapes=()), MEMBERSHIP)
    assert ids(known) == []
    assert known.amounts == []


def test_jobs_come_change_and_go():
    known = table(3, 5)
    found = known.apply(changes(changed(5, 7, urgency=3), changed(9, 8), changed(3, 9, state="cancelled")), MEMBERSHIP)
    assert [row.id for row in found.rows] == [5, 9]
    assert found.gone == [3]
    columns = merged(known.snapshot())
    assert columns.ids.tolist() == [5, 9]
    assert columns.urgencies.tolist() == [3, 16]
    assert known.revision == 9


def test_without_changes_the_columns_stay_the_same_object():
    known = table(3)
    known.apply(changes(), MEMBERSHIP)
    assert merged(known.snapshot()) is known.snapshot().columns


def test_a_shape_is_kept_once():
    known = table(3)
    found = known.apply(changes(changed(4, 2), changed(5, 3, shape=88), shapes={88: OTHER_SHAPE}), MEMBERSHIP)
    assert [row.shape for row in found.rows] == [0, 1]
    assert known.amounts == [{"vcore": 2000, "gpu": 2}, {"vcore": 500}]
    assert 77 in known.shapes
    assert 88 in known.shapes


def test_a_job_belongs_to_its_queues_partition_and_to_no_association_outside_of_the_tree():
    known = table()
    outside = Membership({10: 0, 11: 1}, frozenset({4}))
    found = known.apply(changes(changed(1, 2, queue=11, application=6), changed(2, 3, association=4)), outside)
    assert [(row.partition, row.association, row.application) for row in found.rows] == [(1, 1, 6), (0, -1, NO_GROUP)]


def test_partitions_may_have_other_indices():
    known = table(3)
    known.apply(changes(changed(4, 2, queue=11), changed(3, 3, state="running")), MEMBERSHIP)
    known.set_partitions({10: 5, 11: 6})
    assert merged(known.snapshot()).partitions.tolist() == [6]
    known = table(3)
    known.set_partitions({10: 5})
    assert merged(known.snapshot()).partitions.tolist() == [5]


def test_only_a_generation_with_these_jobs_would_show_that_they_went():
    known = table(3)
    assert not known.apply(changes(changed(8, 2, state="completed")), MEMBERSHIP).is_shown
    assert known.apply(changes(changed(3, 3, state="running")), MEMBERSHIP).is_shown
    assert not known.apply(changes(changed(3, 4, state="completed")), MEMBERSHIP).is_shown
    assert known.apply(changes(changed(9, 5)), MEMBERSHIP).is_shown


def test_nodes_move_with_jobs_that_are_allocated_or_end():
    for state, moved in [("pending", False), ("running", False), ("allocated", True), ("completed", True)]:
        assert table(3).apply(changes(changed(3, 2, state=state)), MEMBERSHIP).moved_nodes == moved


def test_new_jobs_are_those_that_became_eligible():
    known = JobTable()
    known.load(loaded(3, new_jobs=4), MEMBERSHIP)
    known.apply(changes(changed(5, 2), changed(6, 3, eligible_at=None), changed(7, 4, state="running")), MEMBERSHIP)
    assert known.new_jobs == 5


def test_blocked_jobs_are_kept_until_they_change():
    known = table()
    known.apply(changes(changed(5, 2), blocked=[Blocked(job=5, held=False, begin_at=NOW)]), MEMBERSHIP)
    assert known.blocked.next_begin(NOW - 1) == NOW
    known.apply(changes(changed(5, 3)), MEMBERSHIP)
    assert known.blocked.by_id == {}


def test_what_changed_after_a_snapshot_stays_when_it_is_adopted():
    known = table(3)
    known.apply(changes(changed(4, 2), changed(5, 3)), MEMBERSHIP)
    snapshot = known.snapshot()
    known.apply(changes(changed(5, 4, urgency=1), changed(6, 5), changed(3, 6, state="cancelled")), MEMBERSHIP)
    known.adopt(snapshot, merged(snapshot))
    assert known.snapshot().changed.keys() == {3, 5, 6}
    assert ids(known) == [4, 5, 6]
    assert merged(known.snapshot()).urgencies.tolist() == [16, 1, 16]


def test_what_is_forgotten_is_loaded_again_but_new_jobs_stay_new():
    known = table(3)
    known.apply(changes(changed(4, 2), blocked=[Blocked(job=4, held=False, begin_at=NOW)]), MEMBERSHIP)
    amounts = known.amounts
    known.forget()
    assert not known.is_loaded
    assert known.revision == 0
    assert known.blocked.by_id == {}
    assert ids(known) == []
    assert amounts == [{"vcore": 2000, "gpu": 2}]  # an order that is still in use has this list
    assert known.new_jobs == 1
    known.load(loaded(8), MEMBERSHIP)
    assert ids(known) == [8]


def test_the_largest_qos_is_that_of_all_jobs():
    known = table(3)
    assert known.largest_qos == 1
    known.apply(changes(changed(4, 2, qos=6), changed(5, 3, qos=2), changed(6, 4, qos=9, state="running")), MEMBERSHIP)
    assert known.largest_qos == 6
    known.forget()
    assert known.largest_qos == -1
