import math

import msgspec
import numpy as np
import pytest
from simulated import a_job, a_site

from rankd.core.forecast.holding import given
from rankd.core.placement.node_set import NodeSet
from rankd.core.placement.node_table import NodeTable
from rankd.core.placement.problem import Placement
from rankd.core.simulate.population import populate
from rankd.core.simulate.running import Running, UsageBook
from rankd.core.simulate.site import POOL, pool
from rankd_plugins.node_sort.fair import Fair

NODES = NodeSet(pool(8))
IDS = {("default", "root"): 0, ("default", "root.default"): 1}
WORK = populate(a_site(8), [a_job(0, 10, 2, 20), a_job(0, 5, 1, 20, user="u2")], IDS)


def test_jobs_end_after_their_run_times_and_are_expected_to_end_at_their_limits():
    running = Running(NODES)
    running.start(
        [0, 1], [given(NODES, WORK.shapes[place], Placement(place + 1, (POOL,))) for place in (0, 1)], WORK, 100.0
    )
    assert running.next_end_s == 105.0
    assert running.held.ends_at.tolist() == [120.0, 120.0]
    assert running.end(104.0).tolist() == []
    assert running.end(105.0).tolist() == [1]
    assert not running.all_expected
    assert (running.next_end_s, len(running)) == (110.0, 1)
    assert running.end(110.0).tolist() == [0]
    assert running.next_end_s == math.inf


def test_what_is_free_is_what_a_cycle_would_compute_and_a_former_one_stays_as_it_was():
    running, seen = Running(NODES), []
    both = [given(NODES, WORK.shapes[place], Placement(place + 1, (POOL,))) for place in (0, 1)]
    running.start([0], both[:1], WORK, 100.0)
    seen.append((running.held, 6000))
    running.start([1], both[1:], WORK, 101.0)
    seen.append((running.held, 5000))
    running.end(106.0)
    seen.append((running.held, 6000))
    assert running.most_free == {"vcore": 6000}
    for held, free in seen:
        computed = NodeTable(NODES, Fair(), {}, msgspec.structs.replace(held, free=None)).free
        assert NodeTable(NODES, Fair(), {}, held).free.tolist() == computed.tolist()
        assert computed[0, 0] == free


@pytest.mark.parametrize("half_life_s", [None, 30.0])
def test_usage_is_the_same_whether_ended_jobs_are_settled_or_not(half_life_s):
    books = [UsageBook(WORK, half_life_s, 0.0) for _ in range(2)]
    for book in books:
        book.start([0, 1], 0.0)
        book.end(np.array([1]), 5.0)
    books[0].settle(books[0].usage(), 5.0)
    settled, charged = (book.usage().at_instant(50.0, half_life_s) for book in books)
    assert settled == pytest.approx(charged, rel=1e-12)
    assert len(books[0].usage().users) == 1
