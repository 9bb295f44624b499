"""Priorities and the order: the vectorised pass against slow references written straight from the definitions."""

import math

import numpy as np
from builder import AMOUNTS, NOW, PRIORITIES, columns, context, forests, job_row, leaves_of, state
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import JobColumns
from rankd.core.ranking.factor import evaluate
from rankd.core.ranking.order import Applications
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN, compute_priorities
from rankd.core.ranking.ranking import rank
from rankd_plugins.factors.age import Age
from rankd_plugins.factors.fairshare import Fairshare
from rankd_plugins.factors.qos import Qos
from rankd_plugins.factors.queue import Queue
from rankd_plugins.factors.size import Size
from rankd_plugins.factors.user import User

FACTORS = {"age": Age, "fairshare": Fairshare, "qos": Qos, "queue": Queue, "size": Size, "user": User}
N_GROUPS = 3

# --- values -------------------------------------------------------------------------------------------------

WEIGHTS = st.one_of(
    st.sampled_from([0.0, 0.1, -0.1, 1.0, 1000.0, -5000.0, 1e15, -1e15, 1 / 3, 1e-9, 2.0**31]),
    st.floats(-1e6, 1e6),
)
FRACTIONS = st.one_of(st.sampled_from([0.0, 1.0, 0.1, 1 / 3]), st.floats(0, 1))
INSTANTS = st.one_of(st.none(), st.floats(NOW - 1e6, NOW + 1e3), st.sampled_from([NOW, NOW - 604800.0]))
LIMITS = st.one_of(st.none(), st.floats(0.001, 1e7), st.sampled_from([60.0, 3600.0]))
CLASS_VALUES = st.one_of(st.integers(INT32_MIN, INT32_MAX), st.integers(-10, 10))


@st.composite
def jobs(draw, max_jobs=8):
    """Rows of up to ``max_jobs`` jobs with ids in any order."""
    ids = draw(st.lists(st.integers(1, 2**33), unique=True, max_size=max_jobs))
    return [
        job_row(
            id,
            association=draw(st.integers(-1, N_GROUPS - 1)),
            queue=draw(st.integers(0, N_GROUPS - 1)),
            qos=draw(st.integers(0, N_GROUPS - 1)),
            partition=draw(st.integers(0, 1)),
            class_value=draw(CLASS_VALUES),
            urgency=draw(st.integers(0, 31)),
            nodes=draw(st.integers(1, 40)),
            vcore=draw(st.integers(0, 64_000)),
            time_limit_s=draw(LIMITS),
            submitted_at=draw(st.floats(NOW - 1e6, NOW)),
            eligible_at=draw(INSTANTS),
            fixed_priority=draw(st.one_of(st.none(), st.none(), CLASS_VALUES)),
        )
        for id in ids
    ]


@st.composite
def group_tables(draw):
    """The groups' values by name, as lists."""
    optional = st.one_of(st.just(math.nan), FRACTIONS)
    return {
        "fairshares": draw(st.lists(FRACTIONS, min_size=N_GROUPS, max_size=N_GROUPS)),
        "qos_priorities": [float(draw(st.integers(0, 1000))) for _ in range(N_GROUPS)],
        "qos_factors": draw(st.lists(optional, min_size=N_GROUPS, max_size=N_GROUPS)),
        "queue_factors": [draw(st.one_of(st.just(math.nan), st.floats(0, 1e6))) for _ in range(N_GROUPS)],
        "partition_nodes": [float(draw(st.integers(0, 100))) for _ in range(2)],
        "partition_cores": [draw(st.sampled_from([0.0, 1.0, 0.5, 96.0, 1e6])) for _ in range(2)],
    }


@st.composite
def priority_settings(draw):
    """Any policy and variant, with some of the factors in any order."""
    names = draw(st.permutations(sorted(FACTORS)).map(list))[: draw(st.integers(0, len(FACTORS)))]
    return PrioritySettings(
        policy=draw(st.sampled_from(["multifactor", "multifactor", "multifactor", "class", "fcfs"])),
        max_age_s=draw(st.sampled_from([604800.0, 1.0, 0.1, 1e9])),
        favor=draw(st.sampled_from(["large", "small"])),
        size_relative_to_time=draw(st.booleans()),
        weights={name: draw(WEIGHTS) for name in names},
    )


def factors_of(settings):
    return [FACTORS[name](settings) for name in settings.weights]


# --- the reference: one job, one factor at a time, in Python's floats -------------------------------------------


def scalar_value(name, row, tables, settings):  # noqa: PLR0911 - one per factor
    match name:
        case "age":
            if row.eligible_at is None:
                return 0.0
            return min(1.0, max(0.0, (NOW - row.eligible_at) / settings.max_age_s))
        case "fairshare":
            return 0.0 if row.association < 0 else tables["fairshares"][row.association]
        case "qos":
            explicit = tables["qos_factors"][row.qos]
            largest = max(tables["qos_priorities"])
            relative = tables["qos_priorities"][row.qos] / largest if largest > 0 else 0.0
            return relative if math.isnan(explicit) else explicit
        case "queue":
            set_ones = [factor for factor in tables["queue_factors"] if not math.isnan(factor)]
            own = tables["queue_factors"][row.queue]
            return 0.0 if math.isnan(own) or max(set_ones) == 0 else own / max(set_ones)
        case "size":
            return scalar_size(row, tables, settings)
        case "user":
            return (float(row.urgency) - 16.0) / 16.0


def scalar_size(row, tables, settings):
    n, c = float(row.nodes), row.nodes * row.vcore / 1000.0
    total_n, total_c = tables["partition_nodes"][row.partition], tables["partition_cores"][row.partition]
    if not total_n or not total_c:
        return 0.0
    if settings.size_relative_to_time:
        limit_s = math.inf if row.time_limit_s is None else row.time_limit_s
        size = max(c, n * total_c / total_n) / (limit_s / 60.0) / total_c
        size = size if settings.favor == "large" else 1.0 - size
    elif settings.favor == "large":
        size = (n / total_n + c / total_c) / 2.0
    else:
        size = ((total_n - n) / total_n + (total_c - c) / total_c) / 2.0
    return min(1.0, max(0.0, size))


def scalar_sum(row, tables, settings):
    total = 0.0
    for place, (name, weight) in enumerate(settings.weights.items()):
        points = scalar_value(name, row, tables, settings) * weight
        total = points if place == 0 else total + points
    return total


def scalar_priority(row, tables, settings):
    if row.urgency == 31:
        return INT32_MAX
    if row.fixed_priority is not None:
        return row.fixed_priority
    if settings.policy == "class":
        return row.class_value
    if settings.policy == "fcfs":
        return max(INT32_MIN, INT32_MAX + 1 - row.id)
    return max(INT32_MIN, min(INT32_MAX, row.class_value + math.trunc(scalar_sum(row, tables, settings))))


@given(jobs(), group_tables(), priority_settings())
@settings(max_examples=effort(50, 150))
def test_the_vectorised_pass_is_the_slow_one_bit_for_bit(rows, tables, config):
    outcome = compute_priorities(context(*rows, **tables), config, factors_of(config))
    assert outcome.failures == ()
    by_id = sorted(rows)
    of_jobs = [values.of_jobs(columns(*rows)).tolist() for values in outcome.factors]
    assert of_jobs == [[scalar_value(name, row, tables, config) for row in by_id] for name in config.weights]
    assert outcome.points_sums.tolist() == [scalar_sum(row, tables, config) for row in by_id]
    assert outcome.priorities.tolist() == [scalar_priority(row, tables, config) for row in by_id]


@given(jobs(), group_tables(), priority_settings())
def test_every_breakdown_adds_up_to_its_priority(rows, tables, config):
    outcome = compute_priorities(context(*rows, **tables), config, factors_of(config))
    assert [values.name for values in outcome.factors] == list(config.weights)
    table = columns(*rows)
    for place, row in enumerate(sorted(rows)):
        points = [float(values.of_jobs(table)[place]) * values.weight for values in outcome.factors]
        total = 0.0
        for part in points:
            total += part
        assert total == float(outcome.points_sums[place])
        if config.policy == "multifactor" and row.urgency != 31 and row.fixed_priority is None:
            shown = max(INT32_MIN, min(INT32_MAX, row.class_value + math.trunc(total)))
            assert shown == int(outcome.priorities[place])


@given(jobs(), group_tables(), priority_settings(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_bit(rows, tables, config, random):
    shuffled = rows.copy()
    random.shuffle(shuffled)
    one, other = (compute_priorities(context(*r, **tables), config, factors_of(config)) for r in (rows, shuffled))
    assert one.points_sums.tobytes() == other.points_sums.tobytes()
    assert one.priorities.tolist() == other.priorities.tolist()


@given(jobs(max_jobs=5), group_tables(), priority_settings())
def test_a_jobs_priority_does_not_depend_on_who_else_waits(rows, tables, config):
    together = compute_priorities(context(*rows, **tables), config, factors_of(config)).priorities.tolist()
    alone = [
        int(compute_priorities(context(row, **tables), config, factors_of(config)).priorities[0])
        for row in sorted(rows)
    ]
    assert together == alone


@given(jobs(), jobs(), st.data())
def test_merging_what_changed_gives_the_columns_of_all_rows(before, changes, data):
    present = {row.id: row for row in before}
    gone = data.draw(st.lists(st.sampled_from(sorted(present)), unique=True)) if present else []
    replaced = data.draw(st.lists(st.sampled_from(sorted(present)), unique=True)) if present else []
    new = {row.id: row for row in [*changes, *(present[id]._replace(urgency=3) for id in replaced)]}
    merged = columns(*before).merge(np.array(gone, dtype=np.int64), list(new.values()))
    wanted = {id: row for id, row in present.items() if id not in gone} | new
    expected = JobColumns.from_rows(list(wanted.values()))
    for name in JobColumns.__struct_fields__:
        assert getattr(merged, name).tobytes() == getattr(expected, name).tobytes()


# --- each factor is monotone in its input -------------------------------------------------------------------------


def value_of(factor, row, **tables):
    return float(evaluate(factor, context(row, **tables))[0])


@given(st.floats(NOW - 1e7, NOW + 1e4), st.floats(0, 1e7), st.sampled_from([0.1, 3600.0, 604800.0]))
def test_older_job_never_ranks_below_its_twin(eligible_at, older_by, max_age_s):
    age = Age(PrioritySettings(max_age_s=max_age_s))
    older, younger = job_row(eligible_at=eligible_at - older_by), job_row(eligible_at=eligible_at)
    assert value_of(age, older) >= value_of(age, younger)


@given(st.integers(0, 30))
def test_more_urgency_always_counts_more(urgency):
    user = User(PrioritySettings())
    assert value_of(user, job_row(urgency=urgency + 1)) > value_of(user, job_row(urgency=urgency))


@given(
    st.integers(1, 200), st.integers(0, 200), st.integers(0, 64_000), st.integers(0, 64_000), LIMITS,
    st.booleans(), st.integers(1, 100), st.sampled_from([0.5, 64.0, 1e5]),
)  # fmt: skip
def test_larger_jobs_count_more_or_less_as_is_favoured(nodes, more_nodes, vcore, more_vcore, limit, relative, n, c):
    little = job_row(nodes=nodes, vcore=vcore, time_limit_s=limit)
    much = job_row(nodes=nodes + more_nodes, vcore=vcore + more_vcore, time_limit_s=limit)
    tables = {"partition_nodes": [float(n)], "partition_cores": [c]}
    large, small = (Size(PrioritySettings(favor=favor, size_relative_to_time=relative)) for favor in ("large", "small"))
    assert value_of(large, much, **tables) >= value_of(large, little, **tables)
    assert value_of(small, much, **tables) <= value_of(small, little, **tables)


@given(st.floats(0.001, 1e6), st.floats(1, 1e6))
def test_a_longer_limit_makes_a_job_smaller_in_relation_to_time(limit, factor):
    large = Size(PrioritySettings(size_relative_to_time=True))
    longer = value_of(large, job_row(time_limit_s=limit * factor))
    assert longer <= value_of(large, job_row(time_limit_s=limit))


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=5))
def test_higher_priority_of_a_qos_never_counts_less(priorities):
    ordered = sorted(map(float, priorities))
    values = evaluate(
        Qos(PrioritySettings()), context(qos_priorities=ordered, qos_factors=[math.nan] * len(ordered))
    ).tolist()
    assert values == sorted(values)
    assert values[-1] == (1.0 if ordered[-1] else 0.0)


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=5))
def test_higher_factor_of_a_queue_never_counts_less(factors):
    values = evaluate(Queue(PrioritySettings()), context(queue_factors=sorted(factors))).tolist()
    assert values == sorted(values)
    assert values[-1] == (1.0 if max(factors) else 0.0)


@given(st.lists(FRACTIONS, min_size=2, max_size=5))
def test_higher_fair_share_always_counts_more(shares):
    assert evaluate(Fairshare(PrioritySettings()), context(fairshares=shares)).tolist() == shares


@given(jobs(max_jobs=2).filter(lambda rows: len(rows) == 2), priority_settings(), st.floats(0, 1e6))
def test_one_input_better_and_all_else_equal_never_means_a_lower_priority(rows, config, older_by):
    twin = rows[0]._replace(eligible_at=NOW - 10, urgency=5, fixed_priority=None)
    better = twin._replace(eligible_at=NOW - 10 - older_by, urgency=20)
    config = PrioritySettings(
        policy=config.policy, weights={name: abs(weight) for name, weight in config.weights.items()}
    )
    worse, best = (
        int(compute_priorities(context(row, fairshares=[0.5] * N_GROUPS, qos_priorities=[1.0] * N_GROUPS,
                                       qos_factors=[math.nan] * N_GROUPS, queue_factors=[1.0] * N_GROUPS,
                                       partition_nodes=[9.0, 9.0], partition_cores=[9.0, 9.0]),
                               config, factors_of(config)).priorities[0])
        for row in (twin, better)
    )  # fmt: skip
    assert best >= worse


# --- the order --------------------------------------------------------------------------------------------------


@st.composite
def order_problems(draw):
    """A forest, jobs in its leaves, usage, totals, named applications."""
    forest = draw(forests())
    leaves = leaves_of(forest)
    n_applications = 3
    created = draw(st.lists(st.sampled_from([NOW - 1, NOW]), min_size=n_applications, max_size=n_applications))
    places = draw(st.permutations(range(n_applications)))
    rows = [
        job_row(
            id,
            queue=draw(st.sampled_from(leaves)),
            class_value=draw(PRIORITIES),
            application=draw(st.sampled_from([-1, -1, 0, 1, 2])),
            submitted_at=draw(st.sampled_from([NOW - 2, NOW - 1, NOW])),
            eligible_at=draw(st.sampled_from([NOW, NOW, NOW, None])),
            shape=draw(st.integers(0, 1)),
        )
        for id in draw(st.lists(st.integers(1, 99), unique=True, max_size=40))
    ]
    return (
        state(
            *rows,
            queues=[],
            used={leaf: draw(AMOUNTS) for leaf in leaves},
            shapes=[{"vcore": 1}, {"vcore": 2, "gpu": 1}],
            totals=[draw(st.sampled_from([{}, {"vcore": 10}, {"vcore": 8, "gpu": 4}])) for _ in forest],
            applications=Applications(created_at=np.array(created), id_places=np.array(places, dtype=np.int64)),
        ),
        forest,
        rows,
    )


class SlowOrder:
    """Takes each job in turn: from the root down, the best child at every step, everything looked at afresh."""

    def __init__(self, forest, rows, given_state):
        self.state = given_state
        self.forest = forest
        self.views = {view.id: view for views in forest for view in views}
        self.total = {v.id: total for views, total in zip(forest, given_state.totals, strict=True) for v in views}
        self.remaining = {
            id: [row for row in rows if row.queue == id and row.eligible_at is not None] for id in self.views
        }
        # the snapshot's, which do not change while ranking
        self.share = {id: self.fair_share(id) for id in self.views}
        self.pending = {id: self.pending_sum(id) for id in self.views}

    def children(self, id):
        return [other.id for other in self.views.values() if other.parent == id]

    def below(self, id):
        return [id, *(leaf for child in self.children(id) for leaf in self.below(child))]

    def fair_share(self, id):
        used = {}
        for leaf in self.below(id):
            for kind, amount in self.state.used.get(leaf, {}).items():
                used[kind] = used.get(kind, 0) + amount
        fractions = [0.0]
        for kind, amount in used.items():
            own = self.views[id]
            denominator = own.guaranteed.get(kind, own.effective_max.get(kind))
            if amount and denominator is not None:
                fractions.append(amount / denominator if denominator > 0 else 1.0)
        return max(fractions)

    def pending_sum(self, id):
        asked = {}
        for leaf in self.below(id):
            for row in self.remaining[leaf]:
                for kind, amount in self.state.shapes[row.shape].items():
                    asked[kind] = asked.get(kind, 0) + amount
        parts = [asked[kind] / self.total[id][kind] for kind in sorted(asked) if self.total[id].get(kind, 0) > 0]
        return sum(parts)

    def best_inside(self, id):
        """The highest priority that the remaining jobs show inside the queue; None without any."""
        shown = [self.shown(child) for child in self.children(id)]
        shown += [row.class_value for row in self.remaining[id]]
        return max((priority for priority in shown if priority is not None), default=None)

    def shown(self, id):
        best, properties = self.best_inside(id), self.views[id].properties
        if best is None:
            return None
        if properties.priority_policy == "fence":
            return properties.priority_offset
        return max(INT32_MIN, min(INT32_MAX, best + properties.priority_offset))

    def application(self, row):
        """(creation, named after own, id) of the row's application, a row without one being its own."""
        if row.application < 0:
            return row.submitted_at, 0, row.id
        return (
            self.state.applications.created_at[row.application],
            1,
            self.state.applications.id_places[row.application],
        )

    def next_in_leaf(self, id):
        waiting = {}
        for row in self.remaining[id]:
            waiting.setdefault(self.application(row), []).append(row)
        enabled = self.views[id].properties.sort_priority

        def key(application):
            best = max(row.class_value for row in waiting[application])
            return (-best if enabled else 0, application)

        first = min(waiting, key=key)
        return min(waiting[first], key=lambda row: (-row.class_value, row.submitted_at, row.id))

    def next_below(self, id):
        children = [child for child in self.children(id) if self.shown(child) is not None]
        if not children:
            return self.next_in_leaf(id)
        enabled = self.views[id].properties.sort_priority

        def key(child):
            priority = -self.shown(child) if enabled else 0
            return priority, self.share[child], -self.pending[child], self.views[child].path

        return self.next_below(min(children, key=key))

    def order(self):
        taken = []
        while True:
            roots = [(self.best_inside(views[0].id), place) for place, views in enumerate(self.forest)]
            roots = [(-best, place) for best, place in roots if best is not None]
            if not roots:
                return taken
            row = self.next_below(self.forest[min(roots)[1]][0].id)
            self.remaining[row.queue].remove(row)
            taken.append(row.id)


CLASS_ONLY = PrioritySettings(policy="class", weights={})


def ranked(given_state, forest):
    return rank(replace(given_state, queues=forest), CLASS_ONLY, [], NOW)


@given(order_problems())
@settings(max_examples=effort(50, 150))
def test_the_order_is_that_of_taking_each_job_in_turn(drawn):
    given_state, forest, rows = drawn
    assert ranked(given_state, forest).ids.tolist() == SlowOrder(forest, rows, given_state).order()


@given(order_problems())
def test_queue_rows_are_what_the_definitions_say(drawn):
    given_state, forest, rows = drawn
    slow = SlowOrder(forest, rows, given_state)
    roots = {views[0].id for views in forest}
    for row in ranked(given_state, forest).queues:
        assert row.priority == (slow.best_inside(row.id) if row.id in roots else slow.shown(row.id))
        assert row.share == slow.share[row.id]
        assert row.pending_jobs == sum(len(slow.remaining[leaf]) for leaf in slow.below(row.id))


@given(order_problems(), st.randoms(use_true_random=False))
def test_neither_rows_nor_siblings_need_to_stand_in_any_order(drawn, random):
    given_state, forest, rows = drawn
    shuffled = rows.copy()
    random.shuffle(shuffled)
    other = replace(given_state, jobs=columns(*shuffled))
    turned = [[views[0], *sorted(views[1:], key=lambda v: (v.path.count("."), random.random()))] for views in forest]
    assert ranked(other, turned).ids.tolist() == ranked(given_state, forest).ids.tolist()


@given(order_problems())
def test_every_eligible_job_has_exactly_one_rank(drawn):
    given_state, forest, rows = drawn
    ranking = ranked(given_state, forest)
    assert sorted(ranking.ids.tolist()) == sorted(row.id for row in rows if row.eligible_at is not None)
    by_id = {row.id: row.class_value for row in rows}
    assert ranking.ranked_priorities.tolist() == [by_id[id] for id in ranking.ids.tolist()]
