from simulated import a_job, a_site, lived_through

from rankd.core.model.association import Association
from rankd.core.model.node import Node
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


NODES = [Node(name=f"n{number}", capacity={"vcore": 8000}) for number in (1, 2)]


def whole(*times):
    """A job of one core that had a node of eight cores for itself."""
    return a_job(*times, 8)._replace(whole_nodes=1, cores=1)


def test_a_job_with_a_node_for_itself_shares_it_with_nobody_and_counts_whole():
    work = populate(a_site(NODES), [whole(0, 10), a_job(0, 10, 1)], IDS)
    assert [shape.exclusive for shape in work.shapes] == [True, False]
    assert work.totals == [{"vcore": 1000}, {"vcore": 1000}], "what they ask for"
    assert lived_through(a_site(NODES), [whole(0, 10), a_job(1, 10, 8), a_job(2, 1, 1)]) == [0.0, 1.0, 10.0]
    two = [a_job(0, 10, 1), a_job(1, 10, 1)]  # one on each node
    assert lived_through(a_site(NODES), [*two, whole(2, 5)]) == [0.0, 1.0, 10.0]


def test_where_no_node_could_be_its_own_it_shares_them():
    assert not populate(a_site(16), [whole(0, 1)], IDS).shapes[0].exclusive
    many = whole(0, 1)._replace(whole_nodes=3)
    assert not populate(a_site(NODES), [many], IDS).shapes[0].exclusive
