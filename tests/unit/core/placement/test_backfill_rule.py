import pytest
from builder import node, problem, views

from rankd.core.model.reason_code import QUEUE_QUOTA, RESOURCES
from rankd.core.model.setting import SchedulingSettings
from rankd.core.placement.backfill_rule import BackfillRule, useless_order

ONE = views(("root", {}), ("root.a", {}))


def rule(**fields):
    return BackfillRule(problem(ONE, {}, [node("n")], **fields))


@pytest.mark.parametrize(("backfill", "most"), [("easy", 2), ("conservative", 9), ("none", 0)])
def test_the_rule_says_how_many_jobs_get_reservations(backfill, most):
    own = rule(backfill=backfill, reserve_depth=2)
    for job in range(9):
        assert own.may_reserve() == (job < most)
        own.on_reserved(job)


def test_with_strict_the_first_job_that_waits_for_nodes_is_ahead_of_all_others():
    own = rule(backfill="strict")
    own.on_blocked(1, QUEUE_QUOTA)
    assert own.ahead is None
    assert own.may_reserve()
    own.on_blocked(2, RESOURCES)
    own.on_blocked(3, RESOURCES)
    assert own.ahead == 2
    assert not own.may_reserve()


@pytest.mark.parametrize(("backfill", "is_useless"), [("easy", False), ("conservative", True), ("strict", True)])
def test_an_order_of_candidates_needs_easy(backfill, is_useless):
    settings = SchedulingSettings(backfill=backfill, backfill_order="shortest")
    assert (useless_order(settings) is not None) == is_useless
    assert useless_order(SchedulingSettings(backfill=backfill)) is None
