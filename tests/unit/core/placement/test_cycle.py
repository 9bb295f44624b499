import msgspec
import pytest
from builder import NOW, kind, node, problem, shape, views

from rankd.core.instant import shown_instant
from rankd.core.model.device import Device, offered
from rankd.core.model.node import NodeState
from rankd.core.model.queue import NodeSort
from rankd.core.model.reason_code import NO_NODE_FITS, QUEUE_QUOTA, RESERVED, RESOURCES
from rankd.core.placement.cycle import run_cycle
from rankd.core.placement.problem import Hold
from rankd.core.ranking.priority import INT32_MIN
from rankd_plugins.node_sort.binpacking import Binpacking
from rankd_plugins.node_sort.fair import Fair

ONE = views(("root", {}), ("root.a", {}))
CORE = shape(1000)


def started(given, policy=None):
    """(job, nodes) in the order decided."""
    return [(p.job, list(p.nodes)) for p in run_cycle(given, policy or Fair()).placements]


def jobs_started(given):
    return [job for job, _ in started(given)]


def reasons(given):
    """By queue and shape; what holds in all queues stands under each that has such jobs."""
    found = run_cycle(given, Fair()).reasons
    own = {(reason.queue, given.kinds[reason.kind].shape.key()): reason for reason in found}
    for reason in found:
        for queue, jobs in given.waiting.items():
            if reason.queue is None and reason.kind in jobs.kinds:
                key = given.kinds[reason.kind].shape.key()
                own.setdefault((queue, key), msgspec.structs.replace(reason, queue=queue))
    return {key: reason for key, reason in own.items() if key[0] is not None}


def promised(given):
    """(job, start) in the order decided."""
    return [(found.job, found.starts_at) for found in run_cycle(given, Fair()).reservations]


def reserved_fact(given):
    return next(reason.fact for reason in run_cycle(given, Fair()).reasons if reason.reason == RESERVED)


def waiting(*jobs):
    """(job, shape) or (job, shape, priority) in a leaf's order."""
    return [(*job, 0) if len(job) == 2 else job for job in jobs]


def cores(jobs):
    """Jobs of one core each."""
    return waiting(*((job, CORE) for job in jobs))


# --- one leaf -----------------------------------------------------------------------------------------------


def test_jobs_start_in_their_order_as_long_as_they_fit():
    given = problem(ONE, {1: waiting((5, CORE), (3, CORE), (9, CORE))}, [node("n", 2000)])
    assert started(given) == [(5, ["n"]), (3, ["n"])]


def test_a_gang_starts_whole_or_not_at_all():
    gang = shape(1000, nodes=3)
    assert started(problem(ONE, {1: waiting((1, gang))}, [node("a"), node("b")])) == []
    assert started(problem(ONE, {1: waiting((1, gang))}, [node("a"), node("b"), node("c")])) == [(1, ["a", "b", "c"])]


def test_without_backfill_reservations_later_jobs_that_fit_go_first():
    big = shape(4000)
    given = problem(ONE, {1: waiting((1, big), (2, CORE), (3, big))}, [node("n", 4000, used={"vcore": 1000})])
    assert jobs_started(given) == [2]


def test_min_nodes_lets_a_gang_start_smaller():
    gang = shape(1000, nodes=4, min_nodes=2)
    given = problem(ONE, {1: waiting((1, gang))}, [node("a"), node("b"), node("c", 500)])
    assert started(given) == [(1, ["a", "b"])]


def test_the_policy_decides_where_jobs_start():
    nodes = [node("a", used={"vcore": 1000}), node("b")]
    given = problem(ONE, {1: waiting((1, CORE))}, nodes)
    assert started(given, Fair()) == [(1, ["b"])]
    assert started(given, Binpacking()) == [(1, ["a"])]


def test_the_partitions_weights_decide_what_used_means():
    nodes = [node("a", capacity={"vcore": 4000, "gpu": 4}, used={"gpu": 1}), node("b", used={"vcore": 1000})]
    for weights, first in (({"vcore": 1.0}, "a"), ({"gpu": 1.0}, "b"), ({"gpu": 1.0, "vcore": 0.5}, "a")):
        given = problem(ONE, {1: waiting((1, CORE))}, nodes, node_sort=NodeSort(resourceweights=weights))
        assert started(given) == [(1, [first])], weights


# --- reasons ------------------------------------------------------------------------------------------------


def only_reason(given):
    (reason,) = reasons(given).values()
    return reason


@pytest.mark.parametrize(
    ("nodes", "asked"),
    [
        ([], CORE),
        ([node("n", 500)], CORE),
        ([node("n")], shape(1000, nodes=2)),
        ([node("n"), node("m", state=NodeState.DRAINING)], shape(1000, nodes=2)),
        ([node("n", state=NodeState.LOST)], CORE),
        ([node("n")], shape(0, resources={"gpu": 1})),
        ([node("n")], shape(1000, constraints="gpu=a100")),
        ([node("n"), node("m", 500)], shape(1000, nodes=3, min_nodes=2)),
    ],
)
def test_what_too_few_nodes_could_ever_hold_waits_because_no_node_fits(nodes, asked):
    given = problem(ONE, {1: waiting((1, asked))}, nodes)
    reason = only_reason(given)
    assert reason.reason == NO_NODE_FITS
    assert f"of {len(nodes)} node{'' if len(nodes) == 1 else 's'} could hold it" in reason.fact
    assert reason.queue == 1
    assert given.kinds[reason.kind].shape == asked


@pytest.mark.parametrize(
    ("nodes", "asked"),
    [
        ([node("n", used={"vcore": 3500})], CORE),
        ([node("n"), node("m", used={"vcore": 4000})], shape(1000, nodes=2)),
        ([node("n", used={"vcore": 1})], shape(1000, exclusive=True)),
    ],
)
def test_what_would_fit_on_empty_nodes_waits_for_resources(nodes, asked):
    assert only_reason(problem(ONE, {1: waiting((1, asked))}, nodes)).reason == RESOURCES


def test_a_started_job_has_no_reason():
    assert reasons(problem(ONE, {1: waiting((1, CORE))}, [node("n")])) == {}


def test_each_queue_and_shape_has_its_own_reason():
    queues = views(("root", {}), ("root.a", {"maximum": {"vcore": 0}}), ("root.b", {}))
    big = shape(9000)
    given = problem(queues, {1: waiting((1, CORE), (2, big)), 2: waiting((3, big), (4, CORE))}, [node("n")])
    found = {(queue, shape): reason.reason for (queue, shape), reason in reasons(given).items()}
    assert found == {
        (1, CORE.key()): QUEUE_QUOTA,
        (1, big.key()): QUEUE_QUOTA,
        (2, big.key()): NO_NODE_FITS,
    }
    assert jobs_started(given) == [4]


# --- quotas -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("maximum", "count"), [(0, 0), (999, 0), (1000, 1), (2999, 2), (3000, 3), (9000, 4)])
def test_a_queue_never_uses_more_than_its_maximum(maximum, count):
    queues = views(("root", {}), ("root.a", {"maximum": {"vcore": maximum}}))
    given = problem(queues, {1: cores(range(1, 9))}, [node("n", 4000)])
    assert len(started(given)) == count


def test_what_is_used_already_counts_against_the_maximum():
    queues = views(("root", {}), ("root.a", {"maximum": {"vcore": 3000}}))
    given = problem(queues, {1: waiting((1, CORE), (2, CORE))}, [node("n")], used={1: {"vcore": 2000}})
    assert jobs_started(given) == [1]


def test_the_maximum_of_any_queue_above_holds_too_and_is_named():
    queues = views(("root", {"maximum": {"vcore": 2000}}), ("root.p", {}), ("root.p.a", {}), ("root.p.b", {}))
    given = problem(queues, {2: waiting((1, CORE), (2, CORE)), 3: waiting((3, CORE))}, [node("n")])
    assert len(jobs_started(given)) == 2
    (reason,) = reasons(given).values()
    assert reason.reason == QUEUE_QUOTA
    assert "root is at its maximum of vcore" in reason.fact


def test_a_job_over_quota_does_not_hold_up_others():
    queues = views(("root", {}), ("root.a", {"maximum": {"vcore": 1000}}), ("root.b", {}))
    given = problem(queues, {1: waiting((1, shape(2000)), (2, CORE)), 2: waiting((3, CORE))}, [node("n")])
    assert sorted(jobs_started(given)) == [2, 3]


def test_types_that_a_maximum_does_not_name_are_not_limited():
    queues = views(("root", {}), ("root.a", {"maximum": {"gpu": 0}}))
    assert jobs_started(problem(queues, {1: waiting((1, CORE))}, [node("n")])) == [1]


@pytest.mark.parametrize(("maximum", "nodes"), [(4000, 4), (3000, 3), (2999, 2), (2000, 2), (1999, 0)])
def test_a_quota_makes_a_job_with_min_nodes_smaller_and_does_not_keep_it_for_ever(maximum, nodes):
    queues = views(("root", {}), ("root.a", {"maximum": {"vcore": maximum}}))
    given = problem(queues, {1: waiting((1, shape(1000, nodes=4, min_nodes=2)))}, [node(name) for name in "abcd"])
    assert sum(len(places) for _, places in started(given)) == nodes


@pytest.mark.parametrize(("above", "own"), [(9000, 2000), (2000, 9000)])
def test_the_least_room_on_the_path_makes_a_job_smaller(above, own):
    queues = views(("root", {"maximum": {"vcore": above}}), ("root.a", {"maximum": {"vcore": own}}))
    given = problem(queues, {1: waiting((1, shape(1000, nodes=4, min_nodes=1)))}, [node(name) for name in "abcd"])
    assert sum(len(places) for _, places in started(given)) == 2


@pytest.mark.parametrize(("maximum", "nodes"), [(3999, []), (4000, ["b"]), (8000, ["a"]), (12_000, ["a", "b"])])
def test_an_exclusive_job_counts_its_nodes_whole_and_takes_those_within_the_quota(maximum, nodes):
    queues = views(("root", {}), ("root.a", {"maximum": {"vcore": maximum}}))
    alone = shape(1000, nodes=2, min_nodes=1, exclusive=True)
    given = problem(queues, {1: waiting((1, alone))}, [node("a", 8000), node("b", 4000)])
    assert [places for _, places in started(given)] == ([nodes] if nodes else [])
    if not nodes:
        assert {reason.reason for reason in reasons(given).values()} == {QUEUE_QUOTA}
        assert "it is exclusive and would hold vcore 4, but the limit of root.a is 3.999" in {
            reason.fact.partition(".  ")[0].partition(". It")[0] for reason in reasons(given).values()
        }


@pytest.mark.parametrize(("least", "taken"), [(2, ["b", "d"]), (1, ["b", "d"])])
def test_an_exclusive_gang_takes_smaller_nodes_where_more_of_them_stay_within_the_quota(least, taken):
    queues = views(("root", {}), ("root.a", {"maximum": {"vcore": 8000}}))
    alone = shape(1000, nodes=2, min_nodes=least, exclusive=True)
    nodes = [node("a", 8000), node("b", 4000), node("c", 6000), node("d", 4000)]
    assert started(problem(queues, {1: waiting((1, alone))}, nodes)) == [(1, taken)]


def test_an_exclusive_gang_is_promised_smaller_nodes_where_the_first_are_over_the_quota():
    queues = views(("root", {}), ("root.a", {"maximum": {"vcore": 8000}}))
    alone = shape(1000, nodes=2, exclusive=True)
    nodes = [node("a", 8000), node("b", 4000), node("c", 4000)]
    holds = [Hold(node="c", resources={"vcore": 1000}, ends_at=NOW + 50)]
    given = problem(queues, {1: waiting((1, alone))}, nodes, holds=holds, backfill="easy")
    [promised] = run_cycle(given, Fair()).reservations
    assert (promised.nodes, promised.starts_at) == (("c", "b"), NOW + 50)  # those that get room last stand first


def test_whole_nodes_count_against_the_share_and_the_quota_of_those_that_follow():
    queues = views(("root", {"maximum": {"vcore": 5000}}), ("root.a", {}))
    alone = shape(1000, exclusive=True)
    given = problem(queues, {1: waiting((1, alone), (2, CORE), (3, CORE))}, [node("a", 4000), node("b", 4000)])
    assert started(given) == [(1, ["a"]), (2, ["b"])]


def test_another_queues_room_is_its_own():
    queues = views(("root", {}), ("root.a", {"maximum": {"vcore": 1000}}), ("root.b", {}))
    alone = shape(1000, exclusive=True)
    given = problem(queues, {1: waiting((1, alone)), 2: waiting((2, alone))}, [node("n", 4000)])
    assert jobs_started(given) == [2]


def test_a_job_that_waits_for_a_reservation_is_told_whose_where_and_from_when_on():
    """Node a is promised twice; a job that lasts until the first promise's time delays that one, not the second."""
    holds = [Hold(node="a", resources={"vcore": 1000}, ends_at=NOW + 10)]
    wide, asked = kind(shape(2000), time_limit_s=20), kind(CORE, time_limit_s=11)
    jobs = {1: waiting((1, wide), (2, wide), (3, asked))}
    given = problem(ONE, jobs, [node("a", 2000, used={"vcore": 1000})], holds=holds, backfill="conservative")
    assert promised(given)[:2] == [(1, NOW + 10), (2, NOW + 30)]
    assert reserved_fact(given) == f"it would delay job 1, for which a is kept from {shown_instant(NOW + 10)} on"


def test_of_several_reservations_of_a_node_the_one_that_is_delayed_is_named():
    """A small one that leaves room begins first; the job would last into a large one that leaves none."""
    holds = [Hold(node="a", resources={"vcore": 2000}, ends_at=NOW + 10)]
    small, large = (kind(shape(vcore), time_limit_s=100) for vcore in (2000, 3000))
    jobs = {1: waiting((1, small), (2, large), (3, kind(CORE, time_limit_s=200)))}
    given = problem(ONE, jobs, [node("a", 3000, used={"vcore": 2000})], holds=holds, backfill="conservative")
    assert promised(given)[:2] == [(1, NOW + 10), (2, NOW + 110)]
    assert reserved_fact(given).startswith("it would delay job 2, ")


def test_a_node_with_less_than_nothing_of_a_type_free_takes_jobs_that_do_not_ask_for_it():
    """The node has shrunk. The second job leaves to the reserved one what it needs of the GPUs."""
    gpus = [Device(model="a100", id=f"g{at}", index=at) for at in range(5)]
    amounts = {"vcore": 2000, "gpu": 2, "gpu:a100": 2}
    shrunk = node("a", capacity=offered({"vcore": 1000}, gpus), used=amounts, devices=gpus)
    holds = [Hold(node="a", resources=amounts, ends_at=NOW + 5, devices=("g0", "g1"))]
    large, small = (kind(shape(resources={"gpu": amount}), time_limit_s=7) for amount in (4, 1))
    given = problem(ONE, {1: waiting((1, large), (2, small))}, [shrunk], holds=holds, backfill="easy")
    assert promised(given) == [(1, NOW + 5)]
    assert jobs_started(given) == [2]


# --- strict, and the order of backfilling ---------------------------------------------------------------------


def test_with_strict_no_job_passes_one_that_waits_for_nodes():
    jobs = {1: waiting((1, shape(4000)), (2, CORE), (3, shape(8000)))}
    given = problem(ONE, jobs, [node("n", 4000, used={"vcore": 1000})], backfill="strict")
    assert jobs_started(given) == []
    found = {key[1]: reason for key, reason in reasons(given).items()}
    assert found[CORE.key()].reason == RESERVED
    assert found[CORE.key()].fact.startswith("job 1 is before it and waits for nodes")
    assert found[shape(8000).key()].reason == NO_NODE_FITS


def test_with_strict_a_job_that_no_node_will_have_room_for_holds_up_the_others():
    """The running job has no limit, so nothing can be reserved."""
    holds = [Hold(node="n", resources={"vcore": 1000})]
    jobs = {1: waiting((1, shape(4000)), (2, CORE))}
    given = problem(ONE, jobs, [node("n", 4000, used={"vcore": 1000})], holds=holds, backfill="strict")
    assert jobs_started(given) == []


def test_with_strict_jobs_over_quota_and_jobs_that_no_node_fits_hold_up_nobody():
    queues = views(("root", {}), ("root.a", {"maximum": {"vcore": 0}}), ("root.b", {}))
    jobs = {1: waiting((1, CORE, 9)), 2: waiting((2, shape(9000), 5), (3, CORE, 3))}
    assert jobs_started(problem(queues, jobs, [node("n", 4000)], backfill="strict")) == [3]


def a_full_node(jobs, **fields):
    """A node with one free core for ten seconds; then the first job has a reservation."""
    holds = [Hold(node="n", resources={"vcore": 3000}, ends_at=NOW + 10)]
    nodes = [node("n", 4000, used={"vcore": 3000})]
    return problem(ONE, {1: waiting(*jobs)}, nodes, holds=holds, backfill="easy", **fields)


def test_behind_the_reserved_jobs_the_shortest_is_tried_first_where_the_site_wants_that():
    wide, long, short = kind(shape(4000), time_limit_s=50), kind(CORE, time_limit_s=9), kind(CORE, time_limit_s=3)
    jobs = ((1, wide), (2, long), (3, short))
    assert jobs_started(a_full_node(jobs)) == [2]
    assert jobs_started(a_full_node(jobs, backfill_order="shortest")) == [3]


def test_of_equally_short_jobs_the_earlier_submission_is_tried_first():
    short = kind(CORE, time_limit_s=3)
    jobs = ((1, kind(shape(4000), time_limit_s=50)), (3, short), (2, short))
    assert jobs_started(a_full_node(jobs, backfill_order="shortest")) == [2]


def test_before_a_job_is_reserved_the_order_is_that_of_the_ranking():
    jobs = {1: waiting((1, kind(CORE, time_limit_s=9)), (2, kind(CORE, time_limit_s=3)))}
    given = problem(ONE, jobs, [node("n", 2000)], backfill="easy", backfill_order="shortest")
    assert jobs_started(given) == [1, 2]


# --- between queues -----------------------------------------------------------------------------------------


def test_fair_parents_alternate_between_their_children_as_usage_grows():
    queues = views(
        ("root", {}), ("root.a", {"guaranteed": {"vcore": 10_000}}), ("root.b", {"guaranteed": {"vcore": 10_000}})
    )
    given = problem(
        queues, {1: cores(range(1, 5)), 2: cores(range(11, 15))}, [node("n", 6000)],
    )  # fmt: skip
    assert jobs_started(given) == [1, 11, 2, 12, 3, 13]


def test_who_has_twice_the_guarantee_gets_twice_as_much():
    queues = views(
        ("root", {}), ("root.a", {"guaranteed": {"vcore": 20_000}}), ("root.b", {"guaranteed": {"vcore": 10_000}})
    )
    given = problem(
        queues, {1: cores(range(1, 9)), 2: cores(range(11, 19))}, [node("n", 9000)],
    )  # fmt: skip
    order = jobs_started(given)
    assert sum(job < 10 for job in order) == 6
    assert sum(job > 10 for job in order) == 3


def test_priority_goes_before_fairness():
    queues = views(
        ("root", {}), ("root.a", {"guaranteed": {"vcore": 9000}}), ("root.b", {"guaranteed": {"vcore": 9000}})
    )
    given = problem(
        queues, {1: waiting((1, CORE, 0), (2, CORE, 0)), 2: waiting((3, CORE, 9), (4, CORE, 8))}, [node("n", 3000)]
    )
    assert jobs_started(given) == [3, 4, 1]


def test_a_fenced_queues_urgent_job_does_not_go_before_others():
    queues = views(("root", {}), ("root.f", {"priority_policy": "fence"}), ("root.b", {}))
    given = problem(queues, {1: waiting((1, CORE, 1_000_000)), 2: waiting((2, CORE, 1))}, [node("n", 1000)])
    assert jobs_started(given) == [2]


def test_offsets_move_queues():
    queues = views(("root", {}), ("root.a", {"priority_offset": 10}), ("root.b", {}))
    given = problem(queues, {1: waiting((1, CORE, 0)), 2: waiting((2, CORE, 9))}, [node("n", 1000)])
    assert jobs_started(given) == [1]


def test_under_a_disabled_parent_fairness_alone_decides():
    queues = views(("root", {"sort_priority": False}), ("root.a", {}), ("root.b", {}))
    given = problem(queues, {1: waiting((1, CORE, 0)), 2: waiting((2, CORE, 99))}, [node("n", 1000)])
    assert jobs_started(given) == [1]


@pytest.mark.parametrize("disabled", ["root.d", "root.d.x"])
def test_a_disabled_queue_shows_the_best_priority_of_all_its_remaining_jobs(disabled):
    # the leaf's order is 1 then 2; 2's priority lifts the whole queue over b
    paths = ("root", "root.b", "root.d", "root.d.x")
    queues = views(*((path, {"sort_priority": path != disabled}) for path in paths))
    leaf_order = waiting((1, CORE, 1), (2, CORE, 9)) if disabled == "root.d.x" else waiting((1, CORE, 9), (2, CORE, 1))
    given = problem(queues, {1: waiting((3, CORE, 5)), 3: leaf_order}, [node("n", 2000)])
    assert jobs_started(given) == ([1, 2] if disabled == "root.d.x" else [1, 3])


def test_more_pending_breaks_a_tie_of_shares():
    queues = views(("root", {}), ("root.a", {}), ("root.b", {}))
    given = problem(queues, {1: waiting((1, CORE)), 2: waiting((2, CORE), (3, CORE))}, [node("n", 4000)])
    assert jobs_started(given)[0] == 2


def test_pending_falls_by_all_that_a_job_asked_for_even_if_it_got_fewer_nodes():
    queues = views(("root", {}), ("root.a", {}), ("root.b", {}))
    wide = shape(1000, nodes=4, min_nodes=1)
    given = problem(
        queues, {1: waiting((1, wide), (2, CORE)), 2: waiting((3, CORE), (4, CORE))}, [node("m", 1000), node("n", 2000)]
    )
    # a asks for 5 cores, b for 2: a goes first and gets two nodes; then b has more pending
    assert jobs_started(given) == [1, 3]


def test_the_lowest_priority_is_one():
    assert jobs_started(problem(ONE, {1: waiting((1, CORE, INT32_MIN))}, [node("n")])) == [1]


def test_without_jobs_or_nodes_nothing_happens():
    assert started(problem(ONE, {}, [])) == []
    assert started(problem(ONE, {1: []}, [node("n")])) == []


def test_a_cycle_leaves_what_it_was_given_as_it_was():
    used = {1: {"vcore": 1000}}
    given = problem(ONE, {1: waiting((1, CORE), (2, CORE))}, [node("n")], used=used)
    first = run_cycle(given, Fair())
    assert run_cycle(given, Fair()) == first
    assert used == {1: {"vcore": 1000}}
    assert given.waiting[1].jobs.tolist() == [1, 2]
