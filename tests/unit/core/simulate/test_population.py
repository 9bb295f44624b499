from simulated import a_job, a_site

from rankd.core.model.association import Association
from rankd.core.model.setting import FairshareSettings, PrioritySettings
from rankd.core.simulate.population import populate

IDS = {("default", "root"): 0, ("default", "root.default"): 1}


def test_users_whom_no_account_lists_are_in_the_account_of_their_group():
    listed = [Association(account="physics"), Association(account="physics", user="u1", shares=3)]
    jobs = [
        a_job(0, 1, 1, user="u1", group="g7"),
        a_job(0, 1, 1, user="u2", group="g7"),
        a_job(0, 1, 1, user="u3", group=""),
    ]
    work = populate(a_site(4, associations=listed), jobs, IDS)
    assert work.accounts == ["physics", "g7", "default"]
    assert work.tree.user_indices.keys() == {("physics", "u1"), ("g7", "u2"), ("default", "u3")}


def test_jobs_of_one_size_share_a_shape_and_cost_what_the_site_charges():
    priority = PrioritySettings(policy="fcfs", fairshare=FairshareSettings(billing={"vcore": 2.0}))
    work = populate(a_site(8, priority=priority), [a_job(0, 1, 4), a_job(1, 1, 4), a_job(2, 1, 8)], IDS)
    assert len(work.shapes) == 2
    assert work.rates.tolist() == [8.0, 8.0, 16.0]
    assert work.columns.ids.tolist() == [1, 2, 3]
