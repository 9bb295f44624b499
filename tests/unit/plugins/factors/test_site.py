from builder import context, job_row

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.factor import evaluate
from rankd_plugins.factors.site import Site


def test_what_nobody_gives_is_0():
    assert evaluate(Site(PrioritySettings()), context(job_row(1), job_row(2))).tolist() == [0.0, 0.0]
