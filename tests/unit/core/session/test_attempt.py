"""Which file of a job is meant, by attempt, node and stream."""

import pytest

from rankd.core.errors import RankdError
from rankd.core.session.attempt import JobRuns, NodeNow, NodeRun, Wanted, check_all_started, check_reachable, choose


def run(allocation, node="n1", started_at=1.0, name="job-7"):
    out = None if name is None else f"/out/{name}.out"
    err = None if name is None else f"/out/{name}.err"
    return NodeRun(allocation=allocation, node=node, started_at=started_at, ended_at=None, stdout=out, stderr=err)


def job(*runs, **fields):
    about = {
        "name": 7,
        "job": 7,
        "owner": "alice",
        "state": "running",
        "first_task": None,
        "appends": False,
        "interactive": True,
    }
    return JobRuns(runs=list(runs), **(about | fields))


def code(action) -> str:
    with pytest.raises(RankdError) as raised:
        action()
    return raised.value.code


def test_the_last_attempt_and_its_first_node_by_default():
    chosen = choose(job(run(1, "n1"), run(3, "n2"), run(3, "n1")), Wanted("stderr"))
    assert (chosen.run.allocation, chosen.run.node, chosen.path) == (3, "n2", "/out/job-7.err")
    assert (chosen.nodes, chosen.attempt, chosen.attempts) == (["n2", "n1"], 2, 2)


def test_an_allocation_that_started_nothing_is_no_attempt():
    chosen = choose(job(run(1), run(2, started_at=None)), Wanted("stdout"))
    assert (chosen.run.allocation, chosen.attempts) == (1, 1)
    assert code(lambda: choose(job(run(2, started_at=None)), Wanted("stdout"))) == "not_started"


def test_whoever_joins_all_nodes_waits_until_each_has_started():
    starting = job(run(1), run(2, "n1", started_at=None), run(2, "n2"))
    chosen = choose(starting, Wanted("stdout"))
    assert code(lambda: check_all_started(starting, chosen)) == "node_starting"
    check_all_started(job(run(1, started_at=None), run(2, "n1"), run(2, "n2")), chosen)
    check_all_started(job(*starting.runs, state="failed"), chosen)


def test_what_does_not_exist_is_refused_by_what_it_is():
    some = job(run(1), run(2))
    assert code(lambda: choose(some, Wanted("stdout", attempt=3))) == "unknown_attempt"
    assert code(lambda: choose(some, Wanted("stdout", node="n9"))) == "unknown_node"
    assert code(lambda: choose(job(run(1, name=None)), Wanted("stdout"))) == "no_log"
    with pytest.raises(
        RankdError, match="is an array, whose tasks have an output each; name one, such as 7_3"
    ) as refused:
        choose(job(first_task=3), Wanted("stdout"))
    assert refused.value.code == "is_array"


def test_a_file_that_a_later_attempt_wrote_again_is_gone():
    assert code(lambda: choose(job(run(1), run(2)), Wanted("stdout", attempt=1))) == "log_gone"
    for kept in (job(run(1), run(2, "n2")), job(run(1), run(2, name="b")), job(run(1), run(2), appends=True)):
        assert choose(kept, Wanted("stdout", attempt=1)).run.allocation == 1


def test_why_a_job_has_not_started_is_said():
    with pytest.raises(RankdError, match=r"job 7 is pending \(held\) and has written nothing"):
        choose(job(state="pending", reason="held"), Wanted("stdout"))
    with pytest.raises(RankdError, match="job 7 ended as cancelled without a start, so it wrote nothing"):
        choose(job(state="cancelled"), Wanted("stdout"))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (None, "log_gone"), (NodeNow("down", 100.0), "node_unreachable"), (NodeNow("lost", 100.0), "node_unreachable"),
        (NodeNow("up", 50.0), "node_unreachable"),
    ],
)  # fmt: skip
def test_a_node_that_is_away_is_not_asked(node, expected):
    assert code(lambda: check_reachable("n1", node, 5.0, 100.0)) == expected
    check_reachable("n1", NodeNow("draining", 99.0), 5.0, 100.0)
