import numpy as np
import pytest
from builder import NOW, job_row, state, views
from msgspec.structs import replace

from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.setting import FairshareSettings, PrioritySettings
from rankd.core.ranking.delta import Delta
from rankd.core.ranking.order import NO_LEAF
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN
from rankd.core.ranking.ranking import Usage, rank
from rankd_plugins.factors.fairshare import Fairshare
from rankd_plugins.factors.queue import Queue

CLASS_ONLY = PrioritySettings(policy="class", weights={})
TREE = views(
    ("root", {}),
    ("root.a", {}),
    ("root.b", {"priority_policy": "fence", "priority_offset": 40}),
    ("root.b.x", {"priority_offset": 5}),
    ("root.b.y", {}),
)


def ranked(state, settings=CLASS_ONLY, factors=(), now=NOW):
    return rank(state, settings, factors, now)


def queue_rows(ranking):
    return {row.id: row for row in ranking.queues}


def test_ids_and_priorities_stand_side_by_side_by_rank():
    ranking = ranked(state(job_row(1, queue=1, class_value=3), job_row(2, queue=1, class_value=8), queues=TREE))
    assert ranking.ids.tolist() == [2, 1]
    assert ranking.ranked_priorities.tolist() == [8, 3]


def test_a_queues_priority_is_that_of_its_best_job_with_offsets_and_fences_on_the_way():
    rows = queue_rows(
        ranked(state(job_row(1, queue=3, class_value=10), job_row(2, queue=3, class_value=20), queues=TREE))
    )
    assert {id: row.priority for id, row in rows.items()} == {3: 25, 4: None, 2: 40, 1: None, 0: 40}


@pytest.mark.parametrize("fields", [{"eligible_at": None}])
def test_a_queue_whose_jobs_are_not_eligible_has_no_priority_and_nothing_pending(fields):
    rows = queue_rows(ranked(state(job_row(1, queue=3, **fields), queues=TREE)))
    assert {row.priority for row in rows.values()} == {None}
    assert {row.pending_jobs for row in rows.values()} == {0}


@pytest.mark.parametrize("priority", [INT32_MIN, INT32_MAX])
def test_the_lowest_and_the_highest_priority_are_priorities(priority):
    rows = queue_rows(ranked(state(job_row(1, queue=1, class_value=priority), queues=TREE)))
    assert rows[1].priority == priority
    assert rows[0].priority == priority


def test_pending_and_used_are_added_up_to_root():
    rows = queue_rows(
        ranked(
            state(
                job_row(1, queue=3, shape=0),
                job_row(2, queue=4, shape=1),
                job_row(3, queue=4, shape=1),
                job_row(4, queue=1, shape=0),
                queues=TREE,
                shapes=[{"vcore": 1000}, {"vcore": 500, "gpu": 2}],
                used={3: {"vcore": 7}, 1: {"gpu": 1}},
            )
        )
    )
    assert rows[4].pending == {"vcore": 1000, "gpu": 4}
    assert rows[2].pending == {"vcore": 2000, "gpu": 4}
    assert rows[0].pending == {"vcore": 3000, "gpu": 4}
    assert {id: row.pending_jobs for id, row in rows.items()} == {0: 4, 1: 1, 2: 3, 3: 1, 4: 2}
    assert rows[0].used == {"vcore": 7, "gpu": 1}
    assert rows[2].used == {"vcore": 7}
    assert rows[4].used == {}


def siblings(**fields):
    """Two leaves; ``fields`` go to root.a."""
    return views(("root", {}), ("root.a", fields), ("root.b", {}))


def test_of_equal_queues_the_one_with_the_smaller_share_goes_first():
    jobs = [job_row(1, queue=1), job_row(2, queue=2)]
    used = {1: {"vcore": 500}, 2: {"vcore": 400}}
    queues = views(
        ("root", {}), ("root.a", {"guaranteed": {"vcore": 1000}}), ("root.b", {"effective_max": {"vcore": 1000}})
    )
    assert ranked(state(*jobs, queues=queues, used=used)).ids.tolist() == [2, 1]
    richer = views(
        ("root", {}), ("root.a", {"guaranteed": {"vcore": 2000}}), ("root.b", {"effective_max": {"vcore": 1000}})
    )
    assert ranked(state(*jobs, queues=richer, used=used)).ids.tolist() == [1, 2]


def test_of_queues_with_equal_shares_the_one_with_more_pending_goes_first():
    jobs = [job_row(1, queue=1), job_row(2, queue=2), job_row(3, queue=2)]
    ranking = ranked(state(*jobs, queues=siblings(), totals=[{"vcore": 10_000}]))
    assert ranking.ids.tolist() == [2, 3, 1]
    without_total = ranked(state(*jobs, queues=siblings(), totals=[{}]))
    assert without_total.ids.tolist() == [1, 2, 3]


def test_held_jobs_do_not_count_as_pending_in_ties():
    jobs = [job_row(1, queue=1), *(job_row(id, queue=2, eligible_at=None) for id in (2, 3)), job_row(4, queue=2)]
    assert ranked(state(*jobs, queues=siblings(), totals=[{"vcore": 10_000}])).ids.tolist() == [1, 4]


def test_jobs_of_a_queue_that_is_no_longer_configured_wait_without_rank_and_stop_nobody():
    jobs = [job_row(1, queue=1), job_row(2, queue=99, class_value=50)]
    ranking = ranked(
        state(*jobs, queues=siblings(priority_factor=2.0)), PrioritySettings(weights={"queue": 10.0}), [Queue(None)]
    )
    assert ranking.ids.tolist() == [1]
    assert ranking.priorities.priorities.tolist() == [10, 50]


def test_without_partitions_nothing_is_ranked():
    nothing = replace(state(queues=[]), queues=[], totals=[], partition_nodes=np.empty(0), partition_cores=np.empty(0))
    ranking = ranked(nothing)
    assert ranking.ids.tolist() == []
    assert ranking.queues == ()


def test_only_leaf_queues_count_for_the_queue_factor():
    queues = views(
        ("root", {"priority_factor": 100.0}), ("root.a", {"priority_factor": 1.0}), ("root.b", {"priority_factor": 4.0})
    )
    jobs = [job_row(1, queue=1), job_row(2, queue=2)]
    ranking = ranked(state(*jobs, queues=queues), PrioritySettings(weights={"queue": 100.0}), [Queue(None)])
    assert ranking.priorities.priorities.tolist() == [25, 100]


def test_usage_of_running_jobs_counts_up_to_the_instant_of_the_pass():
    tree = AccountTree.build([Association(account="root", user="alice"), Association(account="root", user="bob")])
    usage = Usage(
        amounts=np.zeros(2), at=np.full(2, NOW - 100), users=np.array([1]),
        rates=np.array([2.0]), since=np.array([NOW - 10]), until=np.array([np.inf]),
    )  # fmt: skip
    settings = PrioritySettings(weights={"fairshare": 100.0}, fairshare=FairshareSettings(half_life_s=None))
    jobs = [job_row(1, queue=1, association=6), job_row(2, queue=1, association=5)]
    ranking = ranked(
        state(*jobs, queues=TREE, tree=tree, usage=usage, association_ids=np.array([5, 6])), settings, [Fairshare(None)]
    )
    assert ranking.fairshare.usage.tolist() == [20.0, 0.0, 20.0]
    assert ranking.ids.tolist() == [2, 1]
    assert usage.settled(NOW, None)[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("until", "charged"), [(NOW - 4, 12.0), (NOW, 20.0), (NOW + 50, 20.0)])
def test_a_charge_is_for_the_time_until_the_pass(until, charged):
    usage = Usage(
        amounts=np.array([1.0]), at=np.array([NOW]), users=np.array([0]),
        rates=np.array([2.0]), since=np.array([NOW - 10]), until=np.array([until]),
    )  # fmt: skip
    assert usage.at_instant(NOW, None).tolist() == [1.0 + charged]


def test_a_pass_leaves_what_it_looked_at_as_it_was():
    given = state(job_row(1, queue=1), job_row(2, queue=3), queues=TREE, used={1: {"vcore": 1}})
    first = ranked(given)
    second = ranked(given)
    assert first.ids.tolist() == second.ids.tolist()
    assert first.queues == second.queues
    assert given.used == {1: {"vcore": 1}}


def test_without_queues_nothing_is_ranked_and_changes_change_nothing():
    """An empty queues.yaml is in force, and jobs of queues that were there before still wait."""
    waiting = state(job_row(1, queue=0), job_row(2, queue=0), queues=[])
    ranking = rank(replace(waiting, queues=[], totals=[]), CLASS_ONLY, (), NOW, for_deltas=True)
    ranking.base.prepare()
    assert len(ranking.base) == 0
    assert ranking.base.leaves(np.array([0, 3])).tolist() == [NO_LEAF, NO_LEAF]
    delta = Delta(ranking.base)
    none = waiting.jobs.take(np.empty(0, dtype=np.int64))
    delta.change(np.array([1]), none, np.empty(0, dtype=np.int64), waiting.applications)
    assert (delta.n_ranked, delta.head(5).tolist()) == (0, [])
