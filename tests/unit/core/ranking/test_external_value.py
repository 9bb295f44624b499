"""Factors with values from outside: whose value counts, and what is stored per association."""

import builder
import numpy as np

from rankd.core.adapter.input import FactorRow
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.external_value import ExternalValues, with_external_values
from rankd.core.ranking.factor import FactorContext, Per, evaluate
from rankd_plugins.factors.fairshare import Fairshare
from rankd_plugins.factors.site import Site
from rankd_plugins.factors.user import User

TREE = AccountTree.build(
    [
        Association(account="a"), Association(account="b"), Association(account="a", user="u"),
        Association(account="b", user="u"), Association(account="b", user="v"),
    ]
)  # fmt: skip
IDS = np.array([5, 6, 7])
"""Association ids of (a, u), (b, u), (b, v)."""


def factor(kind, *rows):
    [used] = with_external_values([kind(PrioritySettings())], {kind.name: ExternalValues.of(rows)}, TREE, IDS)
    return used


def values(kind, *rows, fairshares=(0.0,) * 8, associations=(5, 6, 7)):
    jobs = builder.columns(*[builder.job_row(id=10 + i, association=a) for i, a in enumerate(associations)])
    context = FactorContext(now=builder.NOW, jobs=jobs, groups=builder.groups(fairshares=list(fairshares)))
    return evaluate(factor(kind, *rows), context).tolist()


def test_the_most_particular_value_counts():
    rows = [
        FactorRow(value=0.1, account="b"), FactorRow(value=0.2, user="u"),
        FactorRow(value=0.3, account="a", user="u"), FactorRow(value=0.4, job=11),
    ]  # fmt: skip
    assert values(Site, *rows) == [0.3, 0.4, 0.1]


def test_values_of_associations_alone_are_stored_per_association():
    rows = [FactorRow(value=0.5, user="u")]
    assert factor(Site, *rows).per is Per.ASSOCIATION
    assert values(Site, *rows) == [0, 0, 0, 0, 0, 0.5, 0.5, 0]
    assert factor(Site, *rows, FactorRow(value=0.5, job=1)).per is Per.JOB
    assert factor(User, *rows).per is Per.JOB


def test_who_is_given_nothing_keeps_the_factors_own_value():
    shares = [0, 0, 0, 0, 0, 0.25, 0.5, 0.75]
    assert values(Fairshare, FactorRow(value=1.0, account="a"), fairshares=shares)[5:] == [1.0, 0.5, 0.75]
    assert values(Fairshare, FactorRow(value=1.0, job=12), fairshares=shares) == [0.25, 0.5, 1.0]


def test_jobs_of_associations_that_came_since_or_of_none_are_given_nothing():
    rows = [FactorRow(value=0.5, user="u"), FactorRow(value=0.9, job=11)]
    assert values(Site, *rows, associations=(5, 8, -1)) == [0.5, 0.9, 0.0]


def test_jobs_and_users_that_nobody_knows_are_passed_over():
    assert values(Site, FactorRow(value=0.5, job=99), FactorRow(value=0.5, user="gone")) == [0, 0, 0]
    assert values(Site, FactorRow(value=0.5, job=10), associations=()) == []


def test_factors_without_given_values_are_left_alone():
    own = Site(PrioritySettings())
    assert with_external_values([own], {}, TREE, IDS) == [own]
