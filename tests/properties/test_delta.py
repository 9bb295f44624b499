"""Delta generations: single jobs placed in the order of a full pass, against a slow reference from the definition.

The definition: queue keys (the children's order, usage, what a disabled queue shows for its jobs) are the full
pass's. Removed jobs leave; inserted ones take their place by them. In a disabled queue an inserted job shows the
highest priority of the inserted ones from it on to the next job of the pass, between what its neighbours show. One
that comes back changed goes before the place that it had in the pass, which holds it back no more.
"""

from itertools import groupby

import numpy as np
from builder import AMOUNTS, NOW, PRIORITIES, columns, forests, job_row, leaves_of, state
from effort import effort
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rankd.core.model.queue import QueueProperties
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import NO_GROUP, JobRow
from rankd.core.ranking.delta import Delta
from rankd.core.ranking.order import Applications, sort_jobs
from rankd.core.ranking.priority import INT32_MAX, INT32_MIN
from rankd.core.ranking.queue_key import lifted_priority, pending_weight
from rankd.core.ranking.queue_tally import QueueTally
from rankd.core.ranking.queue_view import QueueView
from rankd.core.ranking.ranking import rank

BY_CLASS = PrioritySettings(policy="class", weights={})
N_APPLICATIONS = 4


@st.composite
def rows_of(draw, leaves, ids):
    return [
        job_row(
            id,
            queue=draw(st.sampled_from(leaves)),
            class_value=draw(PRIORITIES),
            application=draw(st.sampled_from([NO_GROUP, NO_GROUP, *range(N_APPLICATIONS)])),
            submitted_at=draw(st.sampled_from([NOW - 2, NOW - 1, NOW])),
            shape=draw(st.integers(0, 1)),
        )
        for id in ids
    ]


@st.composite
def stories(draw):
    """A forest, a state of it, and batches: (jobs that leave, rows that come or change)."""
    forest = draw(forests())
    leaves = leaves_of(forest)
    ids = st.lists(st.integers(1, 60), unique=True, max_size=25)
    created = draw(st.lists(st.sampled_from([NOW - 2, NOW - 1, NOW]), min_size=N_APPLICATIONS, max_size=N_APPLICATIONS))
    places = draw(st.permutations(range(N_APPLICATIONS)))
    given_state = state(
        *draw(rows_of(leaves, draw(ids))),
        queues=[],
        used={leaf: draw(AMOUNTS) for leaf in leaves},
        shapes=[{"vcore": 1}, {"vcore": 2, "gpu": 1}],
        totals=[draw(st.sampled_from([{}, {"vcore": 10}, {"vcore": 8, "gpu": 4}])) for _ in forest],
        applications=Applications(created_at=np.array(created), id_places=np.array(places, dtype=np.int64)),
    )
    batches = [(draw(ids), draw(rows_of(leaves, draw(ids)))) for _ in range(draw(st.integers(1, 4)))]
    return replace(given_state, queues=forest), batches


# --- the reference ------------------------------------------------------------------------------------------


class Reference:
    """All jobs, as (row, is of the pass), in the order of each queue, one at a time in Python."""

    def __init__(self, given_state, ranking):
        self.state = given_state
        self.views = {view.id: view for views in given_state.queues for view in views}
        self.rows = {row.id: row for row in ranking.queues}
        self.totals = {
            view.id: total
            for views, total in zip(given_state.queues, given_state.totals, strict=True)
            for view in views
        }
        self.frozen = {}

    def children(self, queue):
        """In the order of the pass: fair share, pending, name."""
        own = [view for view in self.views.values() if view.parent == queue]

        def key(view):
            row = self.rows[view.id]
            return row.share, -pending_weight(row.pending, self.totals[view.id]), view.path

        return [view.id for view in sorted(own, key=key)]

    def leaf_key(self, row, by_priority):
        applications, named = self.state.applications, row.application != NO_GROUP
        created = applications.created_at[row.application] if named else row.submitted_at
        place = applications.id_places[row.application] if named else 0
        priority = -row.class_value
        inside = (priority if named else 0, row.submitted_at, row.id)
        return (priority if by_priority else 0, created, named, place, *inside)

    def sequence(self, queue, jobs):
        """[(job, what the queue shows its parent for it)], of these jobs."""
        view = self.views[queue]
        children = self.children(queue)
        if children:
            shown = [entry for child in children for entry in self.sequence(child, jobs)]
            if view.properties.sort_priority:
                shown.sort(key=lambda entry: -entry[1])
        else:
            own = sorted(
                (job for job in jobs if job[0].queue == queue),
                key=lambda job: (self.leaf_key(job[0], view.properties.sort_priority), job[1]),
            )
            shown = [(job, job[0].class_value) for job in own]
        if not view.properties.sort_priority:
            return self.frozen_ones(view, shown)
        return [(job, self.lifted(view, own)) for job, own in shown]

    @staticmethod
    def lifted(view, shown):
        return shown if view.parent is None else lifted_priority(shown, view.properties)

    def frozen_ones(self, view, shown):
        if all(is_base for (_, is_base), _ in shown):
            best = [max(own for _, own in shown[at:]) for at in range(len(shown))]
            for (job, _), own in zip(shown, best, strict=True):
                self.frozen[view.id, job] = self.lifted(view, own)
        listed, above = [], INT32_MAX
        for is_base, entries in groupby(shown, key=lambda entry: entry[0][1]):
            part = list(entries)
            if is_base:
                listed += [(job, self.frozen[view.id, job]) for job, _ in part]
                above = listed[-1][1]
                continue
            rest = shown[len(listed) + len(part) :]
            below = self.frozen[view.id, rest[0][0]] if rest else INT32_MIN
            for at, (job, _) in enumerate(part):
                own = self.lifted(view, max(priority for _, priority in part[at:]))
                listed.append((job, max(below, min(above, own))))
        return listed

    def ranked(self, jobs):
        roots = [views[0].id for views in self.state.queues]
        merged = [entry for root in roots for entry in self.sequence(root, jobs)]
        return [job for job, _ in sorted(merged, key=lambda entry: -entry[1])]


def merged_ids(delta):
    """The delta's order, straight from the definition of its entries."""
    ids, entries = [*delta.base.ids.tolist(), None], delta.entries()
    listed = []
    for rank_, id in enumerate(ids, start=1):
        at = entries.positions == rank_
        listed += entries.ids[at].tolist()
        if id is not None and -rank_ not in entries.positions:
            listed.append(id)
    return listed


def edited(old, edit, new):
    """The old entries with the edit done to them; what was added is taken from the new ones."""
    kept = [entry for place, entry in enumerate(old) if place not in edit.deleted]
    before = [place - np.count_nonzero(edit.deleted < place) for place in edit.added.tolist()]
    places = [place + number for number, place in enumerate(before)]
    for place in places:
        kept.insert(place, new[place])
    return kept


def entries_of(delta):
    return list(zip(*(column.tolist() for column in delta.entries()), strict=True))


@given(stories())
@settings(max_examples=effort(100, 300))
def test_a_delta_is_what_the_definition_says_after_any_batches(story):
    given_state, batches = story
    ranking = rank(given_state, BY_CLASS, [], NOW, for_deltas=True)
    delta, reference = Delta(ranking.base), Reference(given_state, ranking)
    base = list(rows_from(given_state.jobs))
    jobs = [(row, True) for row in base]
    assert [row.id for row, _ in reference.ranked(jobs)] == ranking.ids.tolist()
    gone_from_base = set()
    for gone, rows in batches:
        changed = {row.id: row for row in rows}
        leaving = [id for id in gone if id not in changed]
        before = entries_of(delta)
        new = columns(*changed.values())
        edit = delta.change(np.array(leaving, dtype=np.int64), new, new.class_values, given_state.applications)
        gone_from_base |= set(leaving) | set(changed)
        jobs = [job for job in jobs if job[1] or job[0].id not in changed.keys() | set(leaving)]
        jobs += [(row, False) for row in changed.values()]
        expected = [row.id for row, is_base in reference.ranked(jobs) if not (is_base and row.id in gone_from_base)]
        assert merged_ids(delta) == expected
        assert delta.n_ranked == len(expected)
        for limit in (0, 1, 5, 100):
            assert delta.head(limit).tolist() == expected[:limit]
        assert edited(before, edit, entries_of(delta)) == entries_of(delta)


def test_a_job_of_a_disabled_queue_that_comes_back_with_more_shows_it_as_in_a_full_pass():
    enabled, disabled = QueueProperties(), QueueProperties(sort_priority=False)
    forest = [
        [
            QueueView(id=0, path="root", parent=None, properties=enabled),
            QueueView(id=1, path="root.a", parent=0, properties=enabled),
            QueueView(id=2, path="root.b", parent=0, properties=disabled),
        ]
    ]
    first, second = job_row(1, queue=1, class_value=0), job_row(2, queue=2, class_value=0)
    again = job_row(2, queue=2, class_value=1)

    def state_of(*rows):
        return replace(state(*rows, queues=[], shapes=[{"vcore": 1}], totals=[{}]), queues=forest)

    given_state = state_of(first, second)
    ranking = rank(given_state, BY_CLASS, [], NOW, for_deltas=True)
    assert ranking.ids.tolist() == [1, 2]
    delta, new = Delta(ranking.base), columns(again)
    delta.change(np.empty(0, dtype=np.int64), new, new.class_values, given_state.applications)
    assert merged_ids(delta) == rank(state_of(first, again), BY_CLASS, [], NOW).ids.tolist() == [2, 1]


def rows_from(jobs):
    for place in range(len(jobs)):
        values = [getattr(jobs, name)[place].item() for name in jobs.__struct_fields__]
        yield JobRow(*values)


@given(stories())
@settings(max_examples=effort(67, 200))
def test_without_disabled_queues_a_delta_is_the_full_pass_with_its_keys(story):
    given_state, batches = story
    enabled = [
        [replace(v, properties=replace(v.properties, sort_priority=True)) for v in vs] for vs in given_state.queues
    ]
    given_state = replace(given_state, queues=enabled)
    ranking = rank(given_state, BY_CLASS, [], NOW, for_deltas=True)
    delta, jobs = Delta(ranking.base), given_state.jobs
    for gone, rows in batches:
        changed = list({row.id: row for row in rows}.values())
        leaving = np.array([id for id in gone if id not in {row.id for row in changed}], dtype=np.int64)
        new = columns(*changed)
        delta.change(leaving, new, new.class_values, given_state.applications)
        jobs = jobs.merge(leaving, changed)
    again = sort_jobs(jobs, jobs.class_values, ranking.base.pre_order, given_state.applications)
    assert merged_ids(delta) == jobs.ids[again.places].tolist()


@given(stories())
@settings(max_examples=effort(67, 200))
def test_queues_show_and_count_what_a_full_pass_would_find(story):
    given_state, batches = story
    ranking = rank(given_state, BY_CLASS, [], NOW, for_deltas=True)
    tally, jobs = QueueTally(ranking.base, ranking.queues, given_state.queues, given_state.shapes, {}), given_state.jobs
    shown = {row.id: row for row in ranking.queues}
    for gone, rows in batches:
        changed = list({row.id: row for row in rows}.values())
        leaving = np.array([id for id in gone if id not in {row.id for row in changed}], dtype=np.int64)
        new = columns(*changed)
        shown |= {row.id: row for row in tally.change(leaving, new, new.class_values)}
        jobs = jobs.merge(leaving, changed)
        anew = rank(replace(given_state, jobs=jobs), BY_CLASS, [], NOW)
        assert shown == {row.id: row for row in anew.queues}
