import numpy as np
from simulated import a_job, a_site

from rankd.core.simulate import kinds as module
from rankd.core.simulate.kinds import SimulatedKinds
from rankd.core.simulate.population import populate

IDS = {("default", "root"): 0, ("default", "root.default"): 1}


def test_jobs_of_one_size_and_limit_share_a_kind_unless_users_count():
    work = populate(a_site(8), [a_job(0, 5, 1), a_job(0, 5, 1, user="u2"), a_job(0, 6, 1)], IDS)
    for by_user, expected in ((False, [0, 0, 1]), (True, [0, 1, 2])):
        kinds = SimulatedKinds(work, {"vcore"}, {}, by_user=by_user)
        kinds.add(np.arange(3), np.empty(0, dtype=np.int64))
        assert kinds.of_jobs.tolist() == expected


def test_kinds_that_no_pending_job_has_are_forgotten(monkeypatch):
    monkeypatch.setattr(module, "_AT_LEAST", 3)
    work = populate(a_site(8), [a_job(0, run_s, 1) for run_s in range(1, 101)], IDS)
    kinds = SimulatedKinds(work, {"vcore"}, {}, by_user=False)
    for place in range(100):
        pending = np.arange(max(place - 2, 0), place)
        kinds.add(np.array([place]), pending)
        limits = [kinds.table[int(kinds.of_jobs[at])].time_limit_s for at in (*pending, place)]
        assert limits == [at + 1.0 for at in (*pending.tolist(), place)]
    assert len(kinds.table) <= 13
