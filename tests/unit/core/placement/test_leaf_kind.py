"""Which leaves have jobs of some kinds: the answer is that of a look at each leaf, whatever has changed since."""

import random

import numpy as np
from builder import kind, shape

from rankd.core.placement.kind_table import KindTable
from rankd.core.placement.leaf_content import LeafContent
from rankd.core.placement.leaf_kind import LeafKinds

TABLE = KindTable([kind(shape(vcore=n + 1)) for n in range(6)])


def some_content(rng):
    return LeafContent(np.array(rng.choices(range(6), k=rng.randint(1, 4)), dtype=np.int64), TABLE)


def test_the_answer_is_that_of_a_look_at_each_leaf():
    rng = random.Random(5)
    for _ in range(200):
        contents = {place: some_content(rng) for place in rng.sample(range(20), rng.randint(0, 10))}
        found = LeafKinds.of(contents)
        for place in rng.sample(range(20), 4):
            found.others.add(place)
            if rng.random() < 0.5:
                contents.pop(place, None)
            else:
                contents[place] = some_content(rng)
        wanted = np.array([rng.random() < 0.3 for _ in range(6)])
        slow = {place for place, content in contents.items() if wanted[content.kinds].any()}
        assert found.leaves_with(wanted, contents) == slow
