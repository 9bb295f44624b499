"""Between full passes, what jobs share keeps the value that the views show."""

import numpy as np
from builder import context, job_row

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import Per
from rankd.core.ranking.pass_factor import pass_factors
from rankd.core.ranking.priority import FactorValues
from rankd_plugins.factors.age import Age
from rankd_plugins.factors.fairshare import Fairshare


def row(factor, values):
    return FactorValues(
        name=factor.name, weight=1.0, per=factor.per, values=np.array(values), keys=np.empty(0, dtype=np.int64)
    )


def test_values_of_groups_are_those_of_the_pass_and_values_of_jobs_are_new():
    age, fairshare = Age(PrioritySettings()), Fairshare(PrioritySettings())
    found = pass_factors([age, fairshare], [row(age, [0.9]), row(fairshare, [0.25])])
    now = context(job_row(1), fairshares=[0.75])
    assert found[1].values(now).tolist() == [0.25]
    assert found[0].values(now).tolist() == age.values(now).tolist() == [0.0]
    assert [factor.per for factor in found] == [Per.JOB, Per.ASSOCIATION]
    assert found[0].sql() == age.sql()
    assert found[0].parameters() == age.parameters()
