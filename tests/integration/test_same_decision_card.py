"""A node lists its cards in another way while a job holds one: the scheduler and `rankd evaluate` decide the same."""

from __future__ import annotations

import json

import builder
import msgspec
import pytest
from integration.stage import NOW, a_cluster
from integration.test_same_decision import decided, recorded

from rankd.config.configuration import load_configuration
from rankd.core.model.device import ListedDevice
from rankd.store.record.node import register_node
from rankd.wire.message import NodeRegistration

ROOT = {"name": "root", "queues": [{"name": "default", "resources": {"max": {"gpu:a100": 2}}}]}
QUEUES = {"partitions": [{"name": "default", "queues": [ROOT]}]}
"""What the first job was given counts, whatever its node lists now."""
LATER = [{"gpu": 2}, {"gpu:v100": 1, "gpu": 1}, {"gpu": 1}, {"gpu:a100": 1, "gpu": 1}, {}]


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def card(id_, index, model="a100"):
    return ListedDevice(model=model, id=id_, index=index, path=(f"/dev/nvidia{index}",))


BEFORE = [card("g0", 0), card("g1", 1), card("g2", 2, "v100")]


async def registered(cluster, *devices, node="n1"):
    given = NodeRegistration(resources={"vcore": 8, "memory": "8Gi"}, agent=node, devices=list(devices))
    await cluster.database.write(lambda c: register_node(c, node, given, NOW))


@pytest.mark.parametrize(
    "after",
    [
        [card("new0", 0), card("new1", 1), card("new2", 2, "v100")],
        [card("g1", 0), card("g0", 1), card("g2", 2, "v100")],
        [card("g0", 0, "v100"), card("g1", 1), card("g2", 2, "v100")],
        [card("g1", 1)],
        [],
    ],
    ids=["other ids", "changed places", "another model", "gone", "no cards"],
)
@pytest.mark.parametrize("exclusive", [False, True], ids=["shared", "exclusive"])
async def test_a_held_card_that_its_node_lists_in_another_way_counts_the_same_in_a_dump(
    broker, tmp_path, after, exclusive
):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/queues.yaml").write_text(json.dumps(QUEUES))
    own = load_configuration(tmp_path / "config")
    configuration = msgspec.structs.replace(builder.configuration(), partitions=own.partitions)
    async with a_cluster(tmp_path, broker.url, configuration) as cluster:
        prioritizer, scheduler = cluster.prioritizer(), cluster.scheduler()
        await registered(cluster, *BEFORE)
        [first] = await cluster.submit(
            builder.accepted(resources={"vcore": 1000, "gpu": 1}, request={"exclusive": exclusive})
        )
        await prioritizer.run_once(NOW)
        await scheduler.run_once(NOW)
        held = ["g0", "g1", "g2"] if exclusive else ["g0"]
        assert cluster.rows("SELECT job, id FROM job_device ORDER BY id") == [(first, id_) for id_ in held]
        await registered(cluster, *after)
        await registered(cluster, *BEFORE, node="n2")
        jobs = [builder.accepted(resources={"vcore": 1000, **asked}) for asked in LATER]
        await cluster.submit(*jobs, at=NOW + 1)
        await prioritizer.run_once(NOW + 1)
        expected = decided(cluster, QUEUES)
        assert await scheduler.run_once(NOW + 1)
        assert recorded(cluster, since=1) == expected
