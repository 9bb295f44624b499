"""Why a job waits, from the records that a scheduler left."""

from __future__ import annotations

from contextlib import closing

import builder
import pytest
from integration.stage import NOW, a_cluster

from rankd.cli.look.why import explained
from rankd.store.engine.reading import open_for_reading
from rankd.store.look.why import why


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def test_a_job_that_waits_for_room_is_told_what_each_node_lacks(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        for name, vcore in (("n1", 4), ("n2", 4), ("small", 1)):
            await cluster.add_node(name, vcore)
        jobs = [builder.accepted(resources={"vcore": vcore}, class_value=-vcore) for vcore in (2000, 3000, 4000)]
        await cluster.submit(*jobs)
        await cluster.prioritizer().run_once(NOW)
        scheduler = cluster.scheduler()
        await scheduler.run_once(NOW)
        with closing(open_for_reading(cluster.database.path)) as connection:
            answer, running = why(connection, 3), why(connection, 1)
    assert answer["reason"] == "resources"
    lacking = [(row["node"], row["amounts"]) for row in answer["lacks"]]
    assert lacking == [("n1", {"vcore": 2.0}), ("n2", {"vcore": 3.0})]
    assert running["lacks"] == []
    text = "\n".join(explained(answer))
    assert "  n1 lacks vcore 2\n  n2 lacks vcore 3" in text
    assert "small" not in text


async def test_behind_ones_own_jobs_the_next_of_another_user_is_named_too(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        jobs = [builder.accepted(user="bob", class_value=9)]
        jobs += [builder.accepted(user="alice", class_value=5) for _ in range(30)]
        await cluster.submit(*jobs)
        await cluster.prioritizer().run_once(NOW)
        with closing(open_for_reading(cluster.database.path)) as connection:
            second, last, first = (why(connection, job) for job in (2, 31, 1))
    assert (second["above"]["user"], second["above_other"]) == ("bob", None)
    assert (last["above"]["id"], last["above_other"]["id"], last["above_other"]["user"]) == (30, 1, "bob")
    assert last["above_other"]["difference"] == 4
    assert (first["above"], first["above_other"]) == (None, None)
    assert "The next above of another user is job 1 of bob with " in "\n".join(explained(last))
