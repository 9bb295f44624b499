import numpy as np
from builder import NOW

from rankd.mirror import pending_table
from rankd.mirror.pending_kinds import ANY_APPLICATION, Rules
from rankd.mirror.pending_table import PendingTable
from rankd.store.feed.pending_kind import PendingBatch
from rankd.store.feed.shape import JobShape


def table(by_user=(), by_application=(), default=None):
    return PendingTable(Rules(default, frozenset(by_user), frozenset(by_application)))


def row(id_, *, revision=1, queue=2, application=-1, shape=7, limit=None, user="alice", groups=None, eligible=1):
    return (id_, revision, queue, 1, application, shape, NOW, limit, eligible, user, groups)


def read_shape(_job):
    return JobShape("default", 1, 1, 1000, {"vcore": 1000}, None, exclusive=False)


def put(jobs, *rows):
    jobs.put(PendingBatch.of_rows(rows), read_shape)


def pending(jobs):
    return jobs.columns.ids[jobs.columns.is_pending].tolist()


def test_jobs_come_change_go_and_come_back():
    jobs = table()
    put(jobs, row(3), row(5))
    put(jobs, row(9), row(5, revision=2, queue=4))
    assert pending(jobs) == [3, 5, 9]
    assert jobs.lookup(np.array([5, 4, 9])).tolist() == [1, -1, 2]
    assert jobs.columns.queues[1] == 4
    layout = jobs.layout
    jobs.drop([3, 4])
    assert pending(jobs) == [5, 9]
    put(jobs, row(3, revision=8))
    assert pending(jobs) == [3, 5, 9]
    assert jobs.layout == layout  # rows stay where they are
    put(jobs, row(4))  # a job that ran when the table was first read
    assert pending(jobs) == [3, 4, 5, 9]
    assert jobs.layout > layout


def test_jobs_become_eligible():
    jobs = table()
    put(jobs, row(1), row(2, eligible=0))
    assert jobs.columns.is_eligible.tolist() == [True, False]
    put(jobs, row(2))
    assert jobs.columns.is_eligible.tolist() == [True, True]


def test_loading_in_parts_gives_what_jobs_that_come_one_by_one_give():
    listed = [
        row(
            id_,
            shape=2**62 + id_ % 3,
            limit=(None, 60.0, 0.5)[id_ % 2 + id_ % 7 // 6],
            queue=2 + id_ % 2,
            user=f"u{id_}",
        )
        for id_ in range(1, 50)
    ]
    whole, single = table(by_user={3}), table(by_user={3})
    whole.load([PendingBatch.of_rows(listed[:20]), PendingBatch.of_rows(listed[20:])], read_shape)
    for own in listed:
        put(single, own)
    for jobs in (whole, single):
        assert [jobs.known_kinds.key(kind)[:3] for kind in jobs.columns.kinds.tolist()] == [
            (own[5], own[7], own[9] if own[2] == 3 else "") for own in listed
        ]
    for name in ("ids", "revisions", "queues", "qos", "applications"):
        assert getattr(whole.columns, name).tolist() == getattr(single.columns, name).tolist()
    assert len(whole.known_kinds.table) == len(single.known_kinds.table)


def test_a_lookup_in_an_empty_table_finds_nothing():
    assert table().lookup(np.array([1, 2])).tolist() == [-1, -1]


def test_users_and_applications_make_kinds_of_their_own_where_they_count():
    jobs = table(by_user={2}, by_application={2}, default=60.0)
    put(
        jobs,
        row(1),
        row(2, user="bob", groups='["g"]'),
        row(3, application=4),
        row(4, queue=3),
        row(5, queue=3, user="x"),
    )
    kinds = [jobs.known_kinds.table[kind] for kind in jobs.columns.kinds.tolist()]
    assert [(kind.user, kind.groups, kind.application) for kind in kinds] == [
        ("alice", (), -1), ("bob", ("g",), -1), ("alice", (), 4), ("", (), -1), ("", (), -1),
    ]  # fmt: skip
    assert {kind.time_limit_s for kind in kinds} == {60.0}
    keys = [jobs.known_kinds.key(kind) for kind in jobs.columns.kinds.tolist()]
    assert [key.application for key in keys] == [-1, -1, 4, ANY_APPLICATION, ANY_APPLICATION]
    assert [key.is_plain for key in keys] == [False, False, False, True, True]


def test_kinds_and_rows_that_nothing_is_left_of_are_forgotten(monkeypatch):
    monkeypatch.setattr(pending_table, "_DEAD_AT_LEAST", 10)  # few enough to be listed below
    jobs = table()
    jobs.known_kinds._most = 20
    put(jobs, *(row(id_, shape=id_, limit=float(id_)) for id_ in range(1, 41)))
    jobs.drop(list(range(1, 36)))
    assert pending(jobs) == list(range(36, 41))
    assert len(jobs.columns.is_eligible) == len(jobs.columns.submitted_at) == 5
    assert len(jobs.columns.ids) == 5
    assert len(jobs.known_kinds.table) == 5
    kinds = [jobs.known_kinds.table[kind] for kind in jobs.columns.kinds.tolist()]
    assert [kind.time_limit_s for kind in kinds] == [36.0, 37.0, 38.0, 39.0, 40.0]
    assert [jobs.known_kinds.key(kind).shape for kind in jobs.columns.kinds.tolist()] == [36, 37, 38, 39, 40]
    put(jobs, row(50, shape=38, limit=38.0), row(51, shape=1, limit=1.0))
    assert len(jobs.known_kinds.table) == 6
