"""Formula: Slurm, "Multifactor Priority Plugin", Association Factor: the association's priority / the largest."""

import doctest

import numpy as np
import pytest
from builder import job_row, no_usage, state, views

from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association as Row
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.ranking import rank
from rankd_plugins.factors import association
from rankd_plugins.factors.association import Association

SETTINGS = PrioritySettings(weights={"association": 1.0})


def values(account, *users):
    """The factor of users with these priorities, in an account with its own."""
    rows = [Row(account="a", priority=account)]
    rows += [Row(account="a", user=f"u{place}", priority=priority) for place, priority in enumerate(users)]
    given = state(
        job_row(1),
        queues=views(("root", {})),
        tree=AccountTree.build(rows),
        association_ids=np.arange(len(users), dtype=np.int64),
        usage=no_usage(len(users)),
    )
    return rank(given, SETTINGS, [Association(SETTINGS)], 0.0).priorities.factors[0].values.tolist()


@pytest.mark.parametrize(
    ("account", "users", "expected"),
    [
        (0, (5, 20, 0), [0.25, 1.0, 0.0]),
        (40, (10, 20), [0.25, 0.5]),  # accounts count among all
        (0, (0, 0), [0.0, 0.0]),
        (0, (-5, 10), [0.0, 1.0]),
        (0, (-5, -1), [0.0, 0.0]),
    ],
)
def test_an_associations_priority_counts_in_relation_to_the_largest(account, users, expected):
    assert values(account, *users) == expected


def test_the_example_in_its_documentation_is_right():
    assert doctest.testmod(association).failed == 0
