"""``admission.refuse_unfit``: the intake refuses what the nodes that are there at that moment could never hold."""

from __future__ import annotations

import builder
import pytest
from integration.stage import connected, ready, running, write_config

from rankd.bus.connection import Bus
from rankd.services.intake.service import IntakeOptions, run

LARGE = {"command": ["true"], "resources": {"vcore": 4}}


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


async def test_what_no_node_could_hold_is_refused_as_long_as_none_could(broker, tmp_path):
    config = write_config(tmp_path / "config", unknown_association='"default"\nrefuse_unfit = true')
    options = IntakeOptions(nats=broker.url, db=str(tmp_path / "rankd.db"), config=config)
    async with Bus(broker.url, "probe") as bus, connected(broker.url) as client, running(run, options):
        await ready(bus, "intake")

        async def node(vcore: int) -> None:
            await client.ask("rankd.v1.node.n1.register", {"resources": {"vcore": vcore}, "agent": "n1"})

        for vcore, code in ((None, "no_node_fits"), (3, "no_node_fits"), (4, None), (3, "no_node_fits"), (5, None)):
            if vcore is not None:
                await node(vcore)
            reply = await client.do("job.submit", LARGE)
            assert reply.body.get("code") == code, vcore
        assert (await client.do("job.update", {"id": 1, "name": "other"})).status is None
        await client.ask("rankd.v1.node.n1.leave", {"nodes": ["n1"]})
        assert (await client.do("job.submit", LARGE)).body["code"] == "no_node_fits"
        assert (await client.do("job.update", {"id": 1, "name": "another"})).status is None  # it was taken once
