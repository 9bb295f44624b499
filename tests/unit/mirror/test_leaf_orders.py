import numpy as np

from rankd.core.ranking.delta import Entries
from rankd.mirror.leaf_orders import LeafOrders
from rankd.store.feed.order import DeltaChanges, NewestGeneration, RankedLeaf


def leaf(**ranks):
    """A leaf of a full generation: ranks by job, as ``j7=1``; each job's priority is 100 less its rank."""
    ids = [int(name[1:]) for name in ranks]
    return RankedLeaf(
        np.array(ids, dtype=np.int64),
        100 - np.array(list(ranks.values()), dtype=np.int64),
        np.array(list(ranks.values()), dtype=np.int32),
    )


def entries(*rows):
    """Rows of (position, job, priority, queue)."""
    return Entries(*np.array(rows, dtype=np.int64).T)


def delta(**changed):
    """Every chunk, as ``c1=entries(...)``."""
    chunks = {int(name[1:]): own for name, own in changed.items()}
    return DeltaChanges(list(chunks), chunks)


NO_DELTA = DeltaChanges([], {})
FULL = NewestGeneration(number=5, base=5, revision=9, ranked_at=1.0)


def orders_of_two_leaves():
    orders = LeafOrders()
    orders.begin(5, {2: leaf(j7=1, j9=3), 3: leaf(j8=2)})
    orders.follow(FULL, NO_DELTA)
    return orders


def ids(orders):
    return {queue: orders.leaf(queue).ids.tolist() for queue in orders.queues()}


def test_a_full_generation_is_as_it_was_given():
    orders = orders_of_two_leaves()
    assert ids(orders) == {2: [7, 9], 3: [8]}
    assert orders.leaf(2).priorities.tolist() == [99, 97]
    assert orders.ranks({7: 2, 8: 3, 9: 2}) == {7: 1, 8: 2, 9: 3}
    assert (orders.generation, orders.base, orders.revision) == (5, 5, 9)


def test_a_delta_inserts_and_removes_jobs_and_moves_ranks():
    orders = orders_of_two_leaves()
    orders.follow(FULL._replace(number=6, revision=12), delta(c1=entries((1, 20, 500, 3), (-2, 0, 0, 3))))
    assert ids(orders) == {2: [7, 9], 3: [20]}
    assert orders.ranks({20: 3, 7: 2, 9: 2}) == {20: 1, 7: 2, 9: 3}
    assert (orders.generation, orders.base, orders.revision, orders.followed) == (6, 5, 12, 6)


def test_a_chunk_that_is_gone_takes_its_entries_along():
    orders = orders_of_two_leaves()
    orders.follow(FULL._replace(number=6), delta(c1=entries((1, 20, 500, 3)), c2=entries((-3, 0, 0, 2))))
    assert ids(orders) == {2: [7], 3: [20, 8]}
    orders.follow(FULL._replace(number=7), DeltaChanges([2], {}))
    assert ids(orders) == {2: [7], 3: [8]}


def test_only_leaves_that_a_delta_names_get_other_objects():
    orders = orders_of_two_leaves()
    before, version = {queue: orders.leaf(queue) for queue in (2, 3)}, orders.version
    orders.follow(FULL._replace(number=6), delta(c1=entries((2, 20, 500, 3))))
    assert orders.changed_since(version) == {3}
    assert orders.leaf(2) is before[2]
    assert orders.leaf(3) is not before[3]


def test_after_another_base_every_leaf_may_have_changed():
    orders = orders_of_two_leaves()
    version = orders.version
    orders.begin(8, {4: leaf(j7=1)})
    orders.follow(NewestGeneration(8, 8, 20, 2.0), NO_DELTA)
    assert orders.changed_since(version) is None
    assert orders.changed_since(orders.version) == set()
    assert ids(orders) == {4: [7]}


def test_places_grow_with_the_rank_among_all_leaves():
    orders = orders_of_two_leaves()
    orders.follow(FULL._replace(number=6), delta(c1=entries((2, 11, 98, 3), (3, 12, 97, 2), (-3, 9, 97, 2))))
    placed = [
        (place, job)
        for queue in orders.queues()
        for job, place in zip(orders.leaf(queue).ids.tolist(), orders.places(queue).tolist(), strict=True)
    ]
    ranks = orders.ranks({job: queue for queue in orders.queues() for job in orders.leaf(queue).ids.tolist()})
    assert sorted(job for _, job in placed) == sorted(ranks)
    for place, job in placed:
        assert all(ranks[job] < ranks[other] for later, other in placed if place < later)
