"""Kinds of pending jobs: one number for all that ask for the same."""

import numpy as np
import pytest

from rankd.core.ranking.columns import NO_GROUP
from rankd.mirror import pending_kinds
from rankd.mirror.pending_kinds import ANY_APPLICATION, KindKey, PendingKinds, Rules
from rankd.store.feed.pending_kind import PendingBatch
from rankd.store.feed.shape import JobShape


class Shapes:
    """Shape 7 asks for one core, any other one for a GPU as well; counts how often one is read."""

    def __init__(self, jobs):
        self.read = []
        self._of = dict(jobs)

    def __call__(self, job):
        self.read.append(job)
        resources = {"vcore": 1000} if self._of[job] == 7 else {"vcore": 1000, "gpu": 1}
        return JobShape("default", 1, 1, 1000, resources, None, exclusive=False)


def batch(*jobs):
    """Jobs as (queue, application, shape, time limit, user), numbered from 1."""
    rows = [
        (id_, 1, queue, 1, application, shape, 0.0, limit, 1, user, '["staff"]' if user == "bob" else None)
        for id_, (queue, application, shape, limit, user) in enumerate(jobs, start=1)
    ]
    return PendingBatch.of_rows(rows), Shapes((row[0], row[5]) for row in rows)


def kinds_of(kinds, *jobs):
    rows, shapes = batch(*jobs)
    return kinds.of_batch(rows, shapes).tolist()


def rules(by_user=(), by_application=(), default=None):
    return PendingKinds(Rules(default, frozenset(by_user), frozenset(by_application)))


def test_jobs_that_ask_for_the_same_are_of_one_kind():
    kinds = rules()
    found = kinds_of(
        kinds, (2, -1, 7, 60.0, "alice"), (3, 5, 7, 60.0, "bob"), (2, -1, 8, 60.0, "alice"), (2, -1, 7, None, "alice")
    )
    assert found[0] == found[1]
    assert len(set(found)) == 3
    assert kinds.key(found[0]) == KindKey(7, 60.0, "", ANY_APPLICATION)
    assert kinds.key(found[3]).time_limit_s is None
    assert all(kinds.key(kind).is_plain for kind in found)


def test_a_kind_has_the_default_time_limit_where_the_job_states_none():
    kinds = rules(default=600.0)
    [plain, stated] = kinds_of(kinds, (2, -1, 7, None, ""), (2, -1, 7, 60.0, ""))
    assert (kinds.table[plain].time_limit_s, kinds.table[stated].time_limit_s) == (600.0, 60.0)


def test_users_are_kinds_of_their_own_where_a_quota_counts_them():
    kinds = rules(by_user=[2])
    alice, bob, elsewhere, other = kinds_of(
        kinds, (2, -1, 7, None, "alice"), (2, -1, 7, None, "bob"), (3, -1, 7, None, "alice"), (3, -1, 7, None, "bob")
    )
    assert elsewhere == other
    assert len({alice, bob, elsewhere}) == 3
    assert (kinds.table[bob].user, kinds.table[bob].groups) == ("bob", ("staff",))
    assert (kinds.table[alice].groups, kinds.table[elsewhere].user) == ((), "")


def test_applications_are_kinds_of_their_own_where_a_quota_counts_them():
    kinds = rules(by_application=[2])
    one, none, elsewhere = kinds_of(kinds, (2, 5, 7, None, ""), (2, -1, 7, None, ""), (3, 5, 7, None, ""))
    assert len({one, none, elsewhere}) == 3
    assert [kinds.key(kind).application for kind in (one, none, elsewhere)] == [5, NO_GROUP, ANY_APPLICATION]


def test_a_shape_is_read_once():
    kinds = rules()
    rows, shapes = batch((2, -1, 7, 1.0, ""), (2, -1, 7, 2.0, ""), (2, -1, 8, 1.0, ""))
    kinds.of_batch(rows, shapes)
    kinds.of_batch(rows, shapes)
    assert len(shapes.read) == 2


def test_new_resource_types_change_what_cycles_see():
    kinds = rules()
    assert kinds.know(["vcore", "gpu"])
    version = kinds.version
    assert not kinds.know(["gpu"])
    assert kinds.version == version
    assert kinds.know(["tape"])
    assert (kinds.version, kinds.table.known) == (version + 1, {"vcore", "gpu", "tape"})


def test_kinds_of_which_no_job_is_pending_are_forgotten():
    kinds = rules()
    found = np.array(kinds_of(kinds, (2, -1, 7, 1.0, ""), (2, -1, 8, 2.0, ""), (2, -1, 8, 3.0, "")))
    keys = [kinds.key(kind) for kind in found.tolist()]
    version = kinds.version
    renumbered = kinds.forget(found, np.array([False, True, True]))
    assert sorted(renumbered[1:].tolist()) == [0, 1]
    assert [kinds.key(kind) for kind in renumbered[1:].tolist()] == keys[1:]
    assert (len(kinds.table), kinds.version) == (2, version + 1)
    assert kinds_of(kinds, (2, -1, 8, 2.0, ""), (2, -1, 7, 1.0, "")) == [renumbered[1], 2], "the forgotten one is new"


@pytest.mark.parametrize(("number", "expected"), [(3, False), (4, True)])
def test_too_many_kinds_are_noticed(monkeypatch, number, expected):
    monkeypatch.setattr(pending_kinds, "_KINDS_AT_LEAST", 3)
    kinds = rules()
    kinds_of(kinds, *((2, -1, 7, float(limit), "") for limit in range(1, number + 1)))
    assert kinds.are_too_many is expected
