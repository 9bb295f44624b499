"""A queue's state during a cycle: its share and weight are those of the ranking, to the last bit."""

import random

from builder import view

from rankd.core.placement.live_queue import LiveQueue
from rankd.core.ranking.queue_key import fair_share, pending_weight

KINDS = ("vcore", "memory", "gpu")


def amounts(rng):
    return {kind: rng.randint(0, 10**6) for kind in KINDS if rng.random() < 0.7}


def test_share_and_weight_are_those_of_a_full_pass():
    rng = random.Random(3)
    for _ in range(300):
        own = view(1, "root.a", 0, guaranteed=amounts(rng), effective_max=amounts(rng))
        total = {kind: amount for kind, amount in amounts(rng).items() if amount}
        live = LiveQueue(own, None, 0)
        live.used, live.pending = amounts(rng), amounts(rng)
        live.weigh([(kind, total[kind]) for kind in sorted(total)])
        assert live.share == fair_share(live.used, own.guaranteed, own.effective_max)
        assert live.weight == pending_weight(live.pending, total)


def test_a_copy_shares_nothing_that_changes():
    live = LiveQueue(view(1, "root.a", 0), None, 0)
    live.used, live.heap = {"vcore": 1}, [((0.0, 0.0, 0.0, "a"), 1)]
    other = live.copy(None)
    other.used["vcore"] = 2
    other.heap.clear()
    assert live.used == {"vcore": 1}
    assert len(live.heap) == 1
