"""What is left of a row for those who may not see the whole."""

import pytest

from rankd.core.admission.privacy import (
    COUNTED,
    HIDDEN,
    is_about_hidden,
    public_actor,
    seen,
    seen_lacks,
    seen_late,
    seen_neighbours,
    seen_shares,
    sees_all,
)
from rankd.core.admission.submitter import Submitter

ALL = Submitter("alice", privileged=False)
COUNTS, OWN = ALL._replace(sees="counts"), ALL._replace(sees="own")
ROOT = Submitter("root", privileged=True)
ROW = {"id": 7, "user": "bob", "queue": "root.default", "state": "pending", "name": "secret", "comment": "secret"}


@pytest.mark.parametrize("asker", [ALL, ROOT, ROOT._replace(sees="own")])
def test_nothing_is_hidden_without_privacy_or_from_administrators(asker):
    assert sees_all(asker)
    assert seen(ROW, asker) == ROW


@pytest.mark.parametrize("asker", [COUNTS, OWN])
def test_of_others_jobs_only_what_counts_is_left_and_own_jobs_are_whole(asker):
    assert seen(ROW, asker) == {**ROW, "user": None, "name": None, "comment": None}
    assert seen({**ROW, "user": "alice"}, asker) == {**ROW, "user": "alice"}


def test_what_is_not_listed_is_hidden():
    assert not COUNTED & {"user", "name", "account", "comment", "application", "reason_fact", "urgency", "held_by"}
    assert seen({"user": "bob", "new_column": 1}, COUNTS)["new_column"] is None


def test_factors_keep_their_names_only():
    row = {**ROW, "override": None, "factors": [{"name": "age", "value": 0.5, "weight": 2.0, "points": 1.0}]}
    found = seen(row, COUNTS)
    assert found["override"] == HIDDEN
    assert found["factors"] == [{"name": "age", "value": None, "weight": 2.0, "points": None}]


def test_neighbours_of_others_are_counted_or_left_out():
    other = {"id": 6, "user": "bob", "queue": "q", "difference": 5, "parts": {"age": 5.0}, "meets": {}}
    answer = {"id": 7, "user": "alice", "above": other, "below": {"id": 8, "gone": True}, "above_other": None}
    assert seen_neighbours(answer, ALL) == answer
    found = seen_neighbours(answer, COUNTS)
    assert found["above"] == {"id": 6, "user": None, "queue": "q", "difference": 5, "parts": {}, "meets": None}
    assert (found["below"], found["above_other"]) == ({"id": 8, "gone": True}, None)
    assert seen_neighbours(answer, OWN)["above"] is None
    own = {**answer, "above": {**other, "user": "alice"}}
    assert seen_neighbours(own, OWN)["above"] == own["above"]


def test_shares_of_accounts_and_of_oneself_stay():
    rows = [{"account": "a", "user": None}, {"account": "a", "user": "alice"}, {"account": "a", "user": "bob"}]
    assert seen_shares(rows, ALL) == rows
    assert seen_shares(rows, COUNTS) == rows[:2]


@pytest.mark.parametrize("field", ["users", "accounts", "names", "qos"])
def test_hidden_values_are_not_searched_for(field):
    assert is_about_hidden({field: ["x"], "queues": None})
    assert not is_about_hidden({field: None, "queues": ["root"], "states": ["pending"], "ids": [1]})


def test_what_everybody_hears_names_users_only_without_privacy():
    assert [public_actor("alice", jobs) for jobs in ("all", "counts", "own")] == ["alice", None, None]


@pytest.mark.parametrize(
    ("asker", "shown"), [(ALL, ["gpu 0 is taken by bob"]), (COUNTS, []), (OWN, []), (ROOT, ["gpu 0 is taken by bob"])]
)
def test_who_takes_a_device_is_hidden_like_a_job(asker, shown):
    lack = {"node": "n1", "amounts": {"gpu": 1}, "occupied": False, "taken": ["gpu 0 is taken by bob"]}
    assert seen_lacks({"lacks": [lack]}, asker) == {"lacks": [lack | {"taken": shown}]}
    assert seen_lacks({"lacks": None}, asker)["lacks"] in (None, [])


def test_a_late_start_hides_the_ids_of_others_jobs_where_they_are_not_seen():
    causes = [{"kind": "later jobs", "named": ["9"]}, {"kind": "lost nodes", "named": ["n3"]}]
    answer = {"id": 7, "late": {"delay_s": 60.0, "causes": causes}}
    hidden = seen_late(answer, OWN)["late"]
    assert [cause["named"] for cause in hidden["causes"]] == [[], ["n3"]]
    assert hidden["delay_s"] == 60.0
    for asker in (ALL, COUNTS, ROOT):
        assert seen_late(answer, asker) == answer
    assert seen_late({"late": None}, OWN) == {"late": None}
