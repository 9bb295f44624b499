"""Filters of jobs as conditions in SQL."""

import json

import pytest

from rankd.store.look.job_filter import conditions
from rankd.wire.message import JobFilter, JobList


def test_a_filter_without_fields_selects_all():
    assert conditions(JobFilter()) == ("", [])


def test_all_conditions_hold_together():
    where, parameters = conditions(JobFilter(users=["alice", "bob"], names=["fit"]))
    listed = "IN (SELECT value FROM json_each(?)/*texts*/)"
    assert where == f' WHERE "user" {listed} AND name {listed}'
    assert [json.loads(value) for value in parameters] == [["alice", "bob"], ["fit"]]


def test_one_id_and_several_are_one_list():
    where, parameters = conditions(JobFilter(id=3, ids=[4, 5]))
    assert (where.count("id IN"), [json.loads(value) for value in parameters]) == (1, [[3, 4, 5]])


def test_an_empty_list_selects_nothing():
    assert conditions(JobFilter(ids=[]))[1] == ["[]"]


def test_queues_are_compared_without_case():
    where, parameters = conditions(JobFilter(queues=["root.A"]))
    assert where == " WHERE lower(queue) IN (SELECT lower(value) FROM json_each(?)/*texts*/)"
    assert parameters == ['["root.A"]']
    assert conditions(JobFilter(queues=["A", "b.c"]))[1] == ['["root.A","root.b.c"]']


@pytest.mark.parametrize(
    ("wanted", "is_used"),
    [
        (JobFilter(states=["pending"]), True),
        (JobFilter(states=["running", "pending"]), True),
        (JobFilter(states=["pending"], users=["alice"], names=["x"]), True),
        (JobFilter(states=["pending", "failed"]), False),
        (JobFilter(states=["pending"], users=["alice"]), False),  # those of one user are found by the user
    ],
)
def test_the_index_of_active_jobs_is_used_where_only_such_are_wanted(wanted, is_used):
    assert ("state IN ('pending', 'allocated', 'running')" in conditions(wanted)[0]) is is_used


def test_a_page_begins_behind_the_one_before():
    assert conditions(JobFilter(after=7)) == (" WHERE id > ?", [7])
    assert conditions(JobList(before=7)) == (" WHERE id < ?", [7])
