"""How memory and processor time were measured is on record with them."""

from __future__ import annotations

import builder
import pytest
from integration.stage import NOW, a_cluster

from rankd.store.engine.reading import open_for_reading
from rankd.store.look.accounting import accounting
from rankd.wire.message import AccountingFilter


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def test_a_job_says_how_it_was_measured(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        await cluster.add_node("n1")
        jobs = await cluster.submit(builder.accepted(), builder.accepted())
        await cluster.prioritizer().run_once(NOW)
        scheduler = cluster.scheduler()
        while await scheduler.run_once(NOW):
            pass
        for job, measured in zip(jobs, ("cgroup", "wait"), strict=True):
            await cluster.end(job, cpu_s=0.5, max_rss_bytes=4096, measured=measured)
        seen = cluster.rows("SELECT cpu_s, max_rss_bytes, measured FROM job ORDER BY id")
        assert seen == [(0.5, 4096, "cgroup"), (0.5, 4096, "wait")]
        with open_for_reading(cluster.database.path) as reader:
            assert [row["measured"] for row in accounting(reader, AccountingFilter())] == ["cgroup", "wait"]
