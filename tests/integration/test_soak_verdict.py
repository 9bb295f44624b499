"""The soak's verdict on a real database: what it says of a job that has not ended."""

from __future__ import annotations

from datetime import UTC, datetime

import builder
import pytest
from integration.stage import NOW, a_cluster
from soak.verdict import stuck_jobs

from rankd.wire.message import Report


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.000")


async def test_a_stuck_job_is_named_with_the_last_thing_heard_of_it(broker, tmp_path):
    """Job 1 ends, 2 runs, 3 was never taken by its node, 4 finds no room."""
    async with a_cluster(tmp_path, broker.url) as cluster:
        await cluster.add_node("n1", vcore=3)
        await cluster.submit(*[builder.accepted()] * 4, at=NOW)
        await cluster.prioritizer().run_once(NOW)
        await cluster.scheduler().run_once(NOW)
        [_, two, three] = [id_ for (id_,) in cluster.rows("SELECT id FROM allocations ORDER BY job_id")]
        await cluster.end(1, at=NOW + 5)
        await cluster.report(("n1", Report(allocation=two, job=2, kind="started", at=NOW + 7)), at=NOW + 7)
        said = dict(zip((2, 3, 4), stuck_jobs(cluster.database.path), strict=True))
    node = f"the node is up, heard at {clock(NOW)}"
    allocated = f"submit {clock(NOW)}, allocate {clock(NOW)}"
    assert said[2].startswith(f"job 2 is running: {allocated}, start {clock(NOW + 7)}; allocation {two} ({clock(NOW)}")
    assert f"on n1: taken never, started {clock(NOW + 7)}, ended never ; {node}" in said[2]
    assert said[3].startswith(f"job 3 is allocated: {allocated}; allocation {three} ({clock(NOW)}")
    assert f"on n1: taken never, started never, ended never ; {node}" in said[3]
    assert said[4] == f"job 4 is pending: submit {clock(NOW)}"
