"""Simulated nodes: jobs that only take time."""

import asyncio

import pytest

from rankd.core.model.job import JobRequest
from rankd.services.agent.runner import Order
from rankd.services.agent.simulated_nodes import SimulatedNodes
from rankd.wire.message import AllocationMessage, JobOrder, StartJob

NOW = 1000.0


class Reporter:
    def __init__(self):
        self.reports = []

    def add(self, node, report):
        self.reports.append((node, report))

    def ends(self):
        return {report.allocation: report for _, report in self.reports if report.kind == "ended"}


@pytest.fixture
def reporter():
    return Reporter()


@pytest.fixture
def nodes(reporter):
    return SimulatedNodes(reporter, lambda: NOW)


def start(allocation, *command, **request):
    return StartJob(
        allocation=allocation, job=10 + allocation, user="alice", name="fit", nodes=["n1"], rank=0, resources={},
        request=JobRequest(command=list(command), **request),
    )  # fmt: skip


async def take(nodes, *starts, cancels=(), node="n1"):
    async with asyncio.TaskGroup() as group:
        await nodes.take([Order(node, AllocationMessage(starts=list(starts), cancels=list(cancels)))], group)


async def test_a_job_starts_and_ends_with_its_status(nodes, reporter):
    await take(nodes, start(1, "sleep", "0"), start(2, "false", env={"RANKD_SIMULATE_S": "0"}))
    assert [(node, report.kind, report.started_at) for node, report in reporter.reports] == [("n1", "started", NOW)] * 2
    await nodes.all_ended()
    assert {id_: end.exit_status for id_, end in reporter.ends().items()} == {1: 0, 2: 1}


async def test_a_job_over_its_time_limit_is_ended(nodes, reporter):
    await take(nodes, start(1, "sleep", "60", time_limit_s=0.0))
    await nodes.all_ended()
    assert (reporter.ends()[1].cause, reporter.ends()[1].signal) == ("timeout", 15)


async def test_an_allocation_is_started_once(nodes, reporter):
    await take(nodes, start(1, "sleep", "60"), start(1, "sleep", "60"))
    await take(nodes, start(1, "sleep", "60"))
    assert len(reporter.reports) == 1
    await take(nodes, cancels=[1])
    nodes.acknowledged("n1", [reporter.ends()[1]])
    await take(nodes, start(1, "sleep", "60"))
    assert len(reporter.reports) == 2, "it was started before, though it is forgotten"


async def test_a_job_is_cancelled_once(nodes, reporter):
    await take(nodes, start(1, "sleep", "60"))
    await take(nodes, cancels=[1, 9])
    nodes.cancel("n1", [1])
    assert [report.cause for _, report in reporter.reports] == [None, "cancel"]
    await nodes.all_ended()


async def test_what_a_node_runs_and_knows_is_its_own(nodes, reporter):
    await take(nodes, start(1, "sleep", "60"), start(2, "sleep", "60"))
    await take(nodes, start(3, "sleep", "60"), node="n2")
    nodes.cancel("n1", [1])
    assert (nodes.running("n1"), nodes.known("n1"), nodes.known("n2")) == ([2], [1, 2], [3])
    assert nodes.unknown("n1", [1, 2, 3]) == [3]
    nodes.acknowledged("n1", [reporter.ends()[1]])
    assert nodes.known("n1") == [2]
    nodes.end_all(at_once=False)


async def test_all_jobs_end_with_the_agent(nodes, reporter):
    await take(nodes, start(1, "sleep", "60"), start(2, "sleep", "60"))
    await nodes.leave()
    await nodes.all_ended()
    assert {end.cause for end in reporter.ends().values()} == {"agent_stopped"}
    assert nodes.unable is None


async def test_a_simulated_job_has_its_new_time_limit_and_ignores_signals(nodes, reporter):
    await take(nodes, start(1, "sleep", "60", time_limit_s=50.0), start(2, "sleep", "60"))
    orders = [
        JobOrder(id=1, allocation=1, signal=9),
        JobOrder(id=2, allocation=1, time_limit_s=0.0),
        JobOrder(id=3, allocation=9, time_limit_s=0.0),
    ]
    async with asyncio.TaskGroup() as group:
        await nodes.take([Order("n1", AllocationMessage(orders=orders))], group)
    while 1 not in reporter.ends():
        await asyncio.sleep(0)
    assert (reporter.ends()[1].cause, nodes.carried_out.of("n1"), nodes.running("n1")) == ("timeout", [1, 2, 3], [2])
    nodes.cancel("n1", [2])
