"""A pass with what the previous one kept, compared with one that begins with nothing."""

from random import Random

import pytest
from builder import NOW, job_row, state, views
from msgspec.structs import replace

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking import order
from rankd.core.ranking.pass_memory import PassMemory
from rankd.core.ranking.ranking import rank
from rankd_plugins.factors.queue import Queue

SETTINGS = PrioritySettings(weights={"queue": 10})
CHAIN = views(("root", {}), ("root.a", {}), ("root.a.b", {"priority_factor": 4}))
FENCED = views(("root", {}), ("root.a", {"priority_policy": "fence"}), ("root.a.b", {"sort_priority": False}))
TREE = views(("root", {}), ("root.a", {"priority_factor": 2}), ("root.b", {"priority_offset": 5}))
PLAIN = views(("root", {}), ("root.a", {}), ("root.b", {}), ("root.c", {}))


def random_state(random, queues, leaves):
    rows = [
        job_row(
            number,
            queue=random.choice(leaves),
            class_value=random.randint(0, 3),
            submitted_at=NOW - random.randint(0, 3),
            eligible_at=random.choice([NOW, NOW, None]),
        )
        for number in range(1, random.randint(2, 12))
    ]
    return state(*rows, queues=queues)


def both(own, memory):
    """What a pass makes of a state with a memory and without the rows of queues, and what it makes of it alone."""
    factors = [Queue(SETTINGS)]
    kept = rank(own, SETTINGS, factors, NOW, with_queues=False, memory=memory)
    alone = rank(own, SETTINGS, factors, NOW)
    return [(one.ids.tolist(), one.ranked_priorities.tolist()) for one in (kept, alone)]


@pytest.mark.parametrize(("queues", "leaves"), [(CHAIN, [2]), (FENCED, [2]), (TREE, [1, 2]), (PLAIN, [1, 2, 3])])
def test_a_pass_with_a_memory_ranks_as_one_without(queues, leaves):
    random, memory = Random(7), PassMemory()
    given = random_state(random, queues, leaves).queues
    for _ in range(20):
        kept, alone = both(replace(random_state(random, queues, leaves), queues=given), memory)
        assert kept == alone


def test_other_queues_are_not_taken_for_those_of_the_last_pass():
    random, memory = Random(3), PassMemory()
    for queues, leaves in [(CHAIN, [2]), (TREE, [1, 2]), (FENCED, [2]), (CHAIN, [2])]:
        kept, alone = both(random_state(random, queues, leaves), memory)
        assert kept == alone


def test_few_jobs_are_ordered_as_many_are(monkeypatch):
    random = Random(9)
    states = [random_state(random, PLAIN, [1, 2, 3]) for _ in range(30)]
    few = [rank(own, SETTINGS, [Queue(SETTINGS)], NOW).ids.tolist() for own in states]
    monkeypatch.setattr(order, "_FEW_JOBS", -1)
    assert [rank(own, SETTINGS, [Queue(SETTINGS)], NOW).ids.tolist() for own in states] == few
