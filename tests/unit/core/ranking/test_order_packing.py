"""What is done by packing keys into 64 bits is what the plain operations would do, bit for bit."""

import numpy as np
import pytest
from builder import NOW, job_row, order_jobs, state, views
from hypothesis import given
from hypothesis import strategies as st

from rankd.core.model.queue import QueueProperties
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking import order
from rankd.core.ranking.columns import NO_GROUP, JobColumns
from rankd.core.ranking.factor import Per
from rankd.core.ranking.order import Applications, OrderQueue, stable_order
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN, FactorValues, weighted_sum
from rankd.core.ranking.ranking import rank

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
SEEDS = range(60)

# --- sorting ------------------------------------------------------------------------------------------------

BOUNDS = [
    (0, 0),
    (0, 1),
    (-3, 3),
    (INT32_MIN, INT32_MAX),
    (2**40, 2**40 + 5),
    (-(2**60), 2**60),
    (INT64_MIN, INT64_MAX),
]


@st.composite
def sort_keys(draw):
    """Up to five keys, each from some narrow or wide range, all of one length."""
    length = draw(st.integers(0, 30))
    return [
        np.array(draw(st.lists(st.integers(*bounds), min_size=length, max_size=length)), dtype=np.int64)
        for bounds in draw(st.lists(st.sampled_from(BOUNDS), min_size=1, max_size=5))
    ]


@given(sort_keys())
def test_the_packed_order_is_that_of_lexsort(keys):
    before = [key.copy() for key in keys]
    assert stable_order(keys).tolist() == np.lexsort(keys).tolist()
    assert [key.tolist() for key in keys] == [key.tolist() for key in before]


@pytest.mark.parametrize("widths", [[53], [54], [55], [33, 21], [33, 22], [33, 33, 33], [1] * 60])
def test_keys_that_just_fit_take_one_round_and_others_several(widths):
    rng = np.random.default_rng(len(widths))
    keys = [np.append(rng.choice([0, 1, 2**width - 1], 999), 2**width - 1) for width in widths]
    assert stable_order(keys).tolist() == np.lexsort(keys).tolist()


# --- the order of jobs --------------------------------------------------------------------------------------


def random_problem(seed):
    """Arguments of ``order_jobs``: two trees with fences, offsets that clip, disabled queues; applications."""
    rng = np.random.default_rng(seed)
    queues = []
    roots = [grow(rng, queues, 0) for _ in range(rng.integers(1, 3))]
    n, n_applications = int(rng.integers(1, 400)), 6
    applications = Applications(
        created_at=NOW + rng.integers(0, 3, n_applications),
        id_places=rng.permutation(n_applications),
        usage_places=rng.integers(-2, 3, n_applications) if seed % 2 else None,
    )
    some = rng.choice([INT32_MIN, INT32_MIN + 1, -5, 0, 1, 2, 3, INT32_MAX - 1, INT32_MAX], n)
    wide = rng.integers(INT32_MIN, INT32_MAX, n, endpoint=True)
    waiting = rng.random(n) < 0.2 if seed % 3 == 0 else None
    return jobs(rng, n, len(queues), seed % 4 > 0), some if seed % 5 else wide, queues, roots, applications, waiting


def grow(rng, queues, depth):
    """Append a queue and all below it in random order; its index."""
    children = [grow(rng, queues, depth + 1) for _ in range(rng.integers(0 if depth else 1, 4))] if depth < 4 else []
    properties = QueueProperties(
        priority_policy=str(rng.choice(["default", "default", "fence"])),
        priority_offset=int(rng.choice([0, 0, 0, 1, -1, INT32_MAX, INT32_MIN])),
        sort_priority=bool(rng.random() < 0.7),
    )
    queues.append(
        OrderQueue(properties=properties, is_root=not depth, children=tuple(rng.permutation(children).tolist()))
    )
    return len(queues) - 1


def jobs(rng, n, n_queues, named):
    ids = np.cumsum(rng.integers(1, 4, n))
    rows = [
        job_row(
            int(id),
            queue=int(rng.integers(0, n_queues)),
            application=int(rng.integers(NO_GROUP, 6)) if named else NO_GROUP,
            submitted_at=NOW + float(rng.integers(-1, 4)),
            eligible_at=None if rng.random() < 0.1 else NOW,
        )
        for id in ids
    ]
    return JobColumns.from_rows(rows)


def merged(problem):
    """The order by merging every queue's children, one queue after the other, in Python."""
    table, priorities, queues, roots, applications, waiting = problem
    usage = applications.usage_places if applications.usage_places is not None else np.zeros(6, dtype=np.int64)
    skipped = np.isnan(table.eligible_at) | (False if waiting is None else waiting)

    def in_leaf(place, by_priority):
        own, submitted, of = int(table.ids[place]), float(table.submitted_at[place]), int(table.applications[place])
        entry = (0, submitted, 0, own)
        if of != NO_GROUP:
            entry = (int(usage[of]), float(applications.created_at[of]), 1, int(applications.id_places[of]))
        priority = -int(priorities[place])
        return priority if by_priority else 0, entry, priority, submitted, own

    def sequence(index):
        own = queues[index].properties
        if queues[index].children:
            found = [pair for child in queues[index].children for pair in sequence(child)]
            found = sorted(found, key=lambda pair: -pair[1]) if own.sort_priority else found
        else:
            places = [place for place in np.flatnonzero(table.queues == index).tolist() if not skipped[place]]
            found = [(p, int(priorities[p])) for p in sorted(places, key=lambda p: in_leaf(p, own.sort_priority))]
        if not own.sort_priority:
            found = [(place, max(shown for _, shown in found[at:])) for at, (place, _) in enumerate(found)]
        return found if queues[index].is_root else [(place, lifted(shown, own)) for place, shown in found]

    def lifted(shown, own):
        if own.priority_policy == "fence":
            return own.priority_offset
        return max(INT32_MIN, min(INT32_MAX, shown + own.priority_offset))

    everything = [pair for root in roots for pair in sequence(root)]
    return [place for place, _ in sorted(everything, key=lambda pair: -pair[1])]


@pytest.mark.parametrize("seed", SEEDS)
def test_settling_level_by_level_is_merging_queue_by_queue(seed):
    assert order_jobs(*random_problem(seed)).tolist() == merged(random_problem(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_where_keys_do_not_fit_the_general_path_gives_the_same_order(seed, monkeypatch):
    packed = order_jobs(*random_problem(seed))
    for bits in (0, 20, 45):
        monkeypatch.setattr(order, "PACKED_BITS", bits)  # a narrower word, into which these keys do not fit
        general = order_jobs(*random_problem(seed))
        assert packed.dtype == general.dtype
        assert packed.tobytes() == general.tobytes()


# --- sums of leaves -----------------------------------------------------------------------------------------

LEAVES = views(("root", {}), ("root.a", {}), ("root.b", {}), ("root.c", {}))


@pytest.mark.parametrize("largest", [5, 2**40, 2**59, 2**63 - 1])
@pytest.mark.parametrize("n_shapes", [1, 7, 400])
def test_pending_amounts_are_exact_however_large_and_however_many_shapes(largest, n_shapes):
    rng = np.random.default_rng(n_shapes)
    kinds = ["vcore", "memory", "gpu"]
    asked = [{kind: int(rng.integers(0, largest)) for kind in kinds if rng.random() < 0.7} for _ in range(n_shapes)]
    rows = [
        job_row(
            id, queue=int(rng.integers(1, 3)), shape=int(rng.integers(0, n_shapes)), class_value=int(rng.integers(9))
        )
        for id in range(1, 60)
    ]
    ranking = rank(state(*rows, queues=LEAVES, shapes=asked), PrioritySettings(policy="class", weights={}), [], NOW)
    for queue in ranking.queues:
        below = [row for row in rows if queue.id in (0, row.queue)]
        wanted = {kind: sum(asked[row.shape].get(kind, 0) for row in below) for kind in kinds}
        present = {kind for row in below for kind in asked[row.shape]}
        assert queue.pending == {kind: wanted[kind] for kind in present}
        assert queue.pending_jobs == len(below)
        assert queue.priority == max((row.class_value for row in below), default=None)


# --- the weighted sum ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_weighing_groups_before_jobs_changes_no_bit_not_even_the_sign_of_zero(seed):
    rng = np.random.default_rng(seed)
    table = JobColumns.from_rows(
        [job_row(id, association=int(rng.integers(-1, 3)), qos=int(rng.integers(0, 3))) for id in range(1, 50)]
    )
    kinds = [(Per.ASSOCIATION, 3), (Per.QOS, 3), (Per.JOB, 49), (Per.ASSOCIATION, 0)]
    rows = [
        FactorValues(
            name=str(per),
            weight=float(rng.choice([-1000.0, -0.1, 0.3, 1e15])),
            per=per,
            keys=np.arange(size),
            values=rng.choice([0.0, 0.1, 1 / 3, 1.0], size),
        )
        for per, size in rng.permutation(np.array(kinds, dtype=object)).tolist()
    ]
    total = rows[0].of_jobs(table) * rows[0].weight
    for row in rows[1:]:
        total = total + row.of_jobs(table) * row.weight
    assert weighted_sum(rows, table).tobytes() == total.tobytes()
    for row in rows:
        assert weighted_sum([row], table).tobytes() == (row.of_jobs(table) * row.weight).tobytes()
