"""Usage: as stated, decayed to now, and what running jobs add to it from then on."""

import pytest

NOW = 1_700_000_000.0
HALF_LIFE = 1000.0
NODES = [{"name": "n1", "capacity": {"vcore": 64}}]


def usage(decide, row, *, half_life=HALF_LIFE, job=None, started_at=None, billing=None, **sections):
    """Alice's usage, with one running job of 4 cores if there is any."""
    rows = [{"account": "a"}, {"account": "a", "user": "alice", **row}]
    fairshare = {"half_life_s": half_life, "billing": billing or {"vcore": 1.0}}
    running = job is not None
    return decide(
        associations=rows,
        priority={"fairshare": fairshare},
        nodes=NODES,
        jobs=[{"id": 1, "user": "alice", "state": "running", **job}] if running else [],
        allocations=[{"job": 1, "node": "n1", "resources": {"vcore": 4}, "started_at": started_at}] if running else [],
        **sections,
    ).shares["a", "alice"]["usage"]


def test_usage_without_an_instant_is_taken_as_it_is(decide):
    assert usage(decide, {"usage": 1234.5}) == 1234.5
    assert usage(decide, {"usage": 1234.5}, job={}, started_at=NOW - 500) == 1234.5


def test_older_usage_has_decayed(decide):
    assert usage(decide, {"usage": 100.0, "usage_at": NOW - 2 * HALF_LIFE}) == 25.0


def test_without_half_life_nothing_decays(decide):
    assert usage(decide, {"usage": 100.0, "usage_at": 0.0}, half_life=None) == 100.0


def test_running_jobs_are_charged_since_the_usages_instant(decide):
    row = {"usage": 100.0, "usage_at": NOW - 50}
    assert usage(decide, row, half_life=None, job={}, started_at=NOW - 500) == 100.0 + 4 * 50


def test_running_jobs_that_began_later_are_charged_since_they_began(decide):
    row = {"usage": 100.0, "usage_at": NOW - 50}
    assert usage(decide, row, half_life=None, job={}, started_at=NOW - 10) == 100.0 + 4 * 10


def test_the_charge_decays_while_it_is_made(decide):
    charged = usage(decide, {"usage_at": 0.0}, job={}, started_at=NOW - HALF_LIFE)
    assert charged == pytest.approx(4 * HALF_LIFE / 0.6931471805599453 * 0.5, rel=1e-12)


def test_the_qos_usage_factor_and_billing_count(decide):
    qos = [{"name": "half", "usage_factor": 0.5}]
    row = {"usage_at": 0.0}
    charged = usage(
        decide, row, half_life=None, job={"qos": "half"}, started_at=NOW - 10, billing={"vcore": 3}, qos=qos
    )
    assert charged == 4 * 10 * 3 * 0.5


def test_an_exclusive_job_is_charged_for_the_whole_node(decide):
    assert usage(decide, {"usage_at": 0.0}, half_life=None, job={"exclusive": True}, started_at=NOW - 10) == 640


def test_a_job_that_only_waits_costs_nothing(decide):
    assert usage(decide, {"usage_at": 0.0}, half_life=None, job={"state": "pending"}, started_at=NOW - 10) == 0
