import numpy as np
from builder import context, job_row

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import evaluate
from rankd.core.ranking.priority import FactorValues
from rankd_plugins.factors.fairshare import Fairshare


def test_every_job_has_the_fair_share_of_its_association():
    jobs = context(job_row(1, association=2), job_row(2, association=0), fairshares=[0.25, 0.5, 1.0])
    shares = evaluate(Fairshare(PrioritySettings()), jobs)
    of_jobs = FactorValues(name="fairshare", weight=1.0, per=Fairshare.per, values=shares, keys=np.arange(3))
    assert of_jobs.of_jobs(jobs.jobs).tolist() == [1.0, 0.25]
