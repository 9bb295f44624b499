"""Kept queue priorities against those computed from scratch, after any sequence of changes."""

from builder import PRIORITIES, view
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rankd.core.ranking.queue_priority import QueuePriorities

INT32 = (-(2**31), 2**31 - 1)
MAX_QUEUES = 12


@st.composite
def trees(draw):
    """Queues, root first, each below any of those before; some fenced, with any offset."""
    size = draw(st.integers(1, MAX_QUEUES))
    properties = [
        {"priority_policy": draw(st.sampled_from(["default", "fence"])), "priority_offset": draw(PRIORITIES)}
        for _ in range(size)
    ]
    parents = [None, *(draw(st.integers(0, place - 1)) for place in range(1, size))]
    return [view(id_, f"q{id_}", parent, **properties[id_]) for id_, parent in enumerate(parents)]


def leaves(tree):
    return sorted({own.id for own in tree} - {own.parent for own in tree})


def from_scratch(tree, best, queue):
    """By the definition: a leaf's jobs, a parent's children; then offset or fence, but for root."""
    shown = [from_scratch(tree, best, child.id) for child in tree if child.parent == queue] + [best.get(queue)]
    known = [value for value in shown if value is not None]
    own = tree[queue]
    if not known or own.parent is None:
        return max(known, default=None)
    if own.properties.priority_policy == "fence":
        return own.properties.priority_offset
    return min(max(max(known) + own.properties.priority_offset, INT32[0]), INT32[1])


class Changes(RuleBasedStateMachine):
    """Jobs come and go in leaves; now and then the configuration is reloaded."""

    @initialize(tree=trees())
    def begin(self, tree):
        self.tree, self.best, self.kept = tree, {}, QueuePriorities()
        self.shown = self.kept.update(tree, self.best)

    @rule(data=st.data(), priority=st.none() | PRIORITIES)
    def change_a_leaf(self, data, priority):
        leaf = data.draw(st.sampled_from(leaves(self.tree)))
        self.best.pop(leaf, None)
        if priority is not None:
            self.best[leaf] = priority
        self.shown = self.kept.update(self.tree, self.best)
        assert self.kept.recomputed <= depth(self.tree, leaf)

    @rule(data=st.data())
    def change_several(self, data):
        self.best = data.draw(st.dictionaries(st.sampled_from(leaves(self.tree)), PRIORITIES))
        self.shown = self.kept.update(self.tree, self.best)

    @rule(tree=trees())
    def reload(self, tree):
        """Leaves that are there still keep their jobs; those of others are of no queue any more."""
        self.tree = tree
        self.best = {leaf: priority for leaf, priority in self.best.items() if leaf in leaves(tree)}
        self.shown = self.kept.update(tree, self.best | {MAX_QUEUES + 1: INT32[1]})

    @rule()
    def look_again(self):
        self.shown = self.kept.update(list(self.tree), dict(self.best))
        assert self.kept.recomputed == 0

    @invariant()
    def what_is_kept_is_what_a_new_computation_gives(self):
        if hasattr(self, "tree"):
            assert dict(self.shown) == {own.id: from_scratch(self.tree, self.best, own.id) for own in self.tree}


TestChanges = Changes.TestCase


def depth(tree, queue):
    parent = tree[queue].parent
    return 1 if parent is None else 1 + depth(tree, parent)


@given(trees(), st.data())
def test_a_change_ends_where_a_queue_shows_what_it_showed(tree, data):
    """Below a fence, nothing above is looked at but the fence itself."""
    kept = QueuePriorities()
    leaf = data.draw(st.sampled_from(leaves(tree)))
    fence = view(tree[leaf].id, tree[leaf].path, tree[leaf].parent, priority_policy="fence")
    tree = [fence if own.id == leaf and own.parent is not None else own for own in tree]
    kept.update(tree, {leaf: 1})
    kept.update(tree, {leaf: 2})
    assert kept.recomputed == 1
