import numpy as np
from simulated import a_job, a_site

from rankd.core.model.setting import FairshareSettings
from rankd.core.simulate.comparison import compare
from rankd.core.simulate.population import populate
from rankd.core.simulate.statistic import statistic
from rankd.core.simulate.trace import LeftOut

IDS = {("default", "root"): 0, ("default", "root.default"): 1}


def test_winners_wait_less_with_the_second_simulation_and_losers_longer():
    work = populate(a_site(4), [a_job(0, 10, 4, user="a"), a_job(0, 10, 4, user="b"), a_job(0, 10, 2, user="c")], IDS)
    first, second = (
        statistic(work, np.array(starts), LeftOut(), [("default", 4)], FairshareSettings(), None)
        for starts in ([0.0, 10.0, 20.0], [10.0, 0.0, 20.0])
    )
    users = compare(first, second)
    assert [(one.name, one.wait_s, one.slowdown) for one in users.winners if one.kind == "user"] == [("b", -10.0, -1.0)]
    assert [(one.name, one.wait_s) for one in users.losers if one.kind == "user"] == [("a", 10.0)]
    assert not any(one.name == "c" for one in (*users.winners, *users.losers))
