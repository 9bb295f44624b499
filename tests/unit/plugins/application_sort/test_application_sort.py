"""The application sorting policies that come with rankd; what they make of a queue is tested with the ranking."""

import doctest
import importlib
import itertools

import pytest

from rankd.config.plugin import application_sort_names, load_application_sort
from rankd.core.ranking.application_sort import Candidate

STATES = ("new", "accepted", "starting", "completing", "failed")
SHARES = [(), (0.25,), (0.5,), (0.5, 0.25), (1.5, 0.1)]


@pytest.mark.parametrize("name", ["fair", "fifo", "stateaware"])
def test_the_worked_example_holds(name):
    tried = doctest.testmod(importlib.import_module(f"rankd_plugins.application_sort.{name}"))
    assert tried.attempted > 0
    assert tried.failed == 0


def test_they_are_installed_under_their_own_names():
    assert application_sort_names() == ["fair", "fifo", "stateaware"]
    assert [load_application_sort(name).name for name in application_sort_names()] == application_sort_names()


def test_who_uses_more_never_goes_first_in_a_fair_queue():
    key = load_application_sort("fair").key
    assert all(key(less) < key(more) for less, more in itertools.pairwise(SHARES))


@pytest.mark.parametrize("name", ["fifo", "stateaware"])
def test_usage_makes_no_difference_elsewhere(name):
    policy = load_application_sort(name)
    assert not policy.goes_by_usage
    assert len({policy.key(shares) for shares in SHARES}) == 1


@pytest.mark.parametrize("name", ["fair", "fifo"])
def test_only_stateaware_holds_anybody_back(name):
    policy = load_application_sort(name)
    assert not policy.holds_back
    candidates = [Candidate(state=state, priority=None) for state in STATES]
    assert list(policy.let_in(candidates, by_priority=True)) == list(range(len(STATES)))


@pytest.mark.parametrize("by_priority", [True, False])
def test_stateaware_lets_in_the_oldest_that_starts_else_one_accepted_with_work(by_priority):
    policy = load_application_sort("stateaware")
    for states in itertools.product(STATES, repeat=3):
        for priorities in itertools.product((None, 1, 2), repeat=3):
            candidates = [Candidate(state=s, priority=p) for s, p in zip(states, priorities, strict=True)]
            starting = [place for place, state in enumerate(states) if state == "starting"]
            accepted = [p for p in range(3) if states[p] == "accepted" and priorities[p] is not None]
            if by_priority:
                accepted.sort(key=lambda place: -priorities[place])
            assert policy.let_in(candidates, by_priority=by_priority) == (starting or accepted)[:1]
