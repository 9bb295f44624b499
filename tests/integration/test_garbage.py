"""Whatever a holder of the services' rights puts on every subject and stream, all services work on, and start again."""

from __future__ import annotations

import builder
import pytest
from fuzz.hostile import Hostile
from integration.stage import connected, rows
from integration.test_roles import all_running
from integration.test_unreadable import SUBJECTS, publish_raw, throw

SEEDS = 2
ON_EACH = 40
MORE_SUBJECTS = (
    "rankd.v1.node.n1.register",
    "rankd.v1.node.n1.take",
    "rankd.v1.node.n1.leave",
    "rankd.v1.node.n1.allocation",
    "rankd.v1.event.factor.age",
    "rankd.v1.event.adapter.x",
    "rankd.v1.event.ranking",
    "rankd.v1.event.scheduler",
    "rankd.v1.internal.health.prioritizer",
    "rankd.v1.internal.health.scheduler",
    "rankd.v1.internal.diag.prioritizer",
    "rankd.v1.admin.root.config.reload",
    "rankd.v1.admin.root.class.create",
    "rankd.v1.admin.root.job.update",
    "$SRV.PING",
    "$SRV.INFO.rankd",
)
FIELDS = ["events", "reports", "service", "nodes", "starts", "generation", "schema_version", "version", "id", "at"]


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


def drawn(seed: int) -> list[bytes]:
    """Random bytes; fields of many messages with wrong values; good messages that are damaged."""
    payloads = []
    for number in range(ON_EACH):
        hostile = Hostile(f"{seed} {number}")
        good = b'{"events":[{"id":1,"job":1,"event":"submit","state":"pending","at":1.0,"actor":"a","cause":null}]}'
        payloads += [hostile.noise(), hostile.document(FIELDS, {}), hostile.damaged(good)]
    return payloads


async def works(broker, tmp_path) -> dict:
    """A job is allocated to a node; returns the statistics of the services."""
    async with connected(broker.url) as user:  # a new client: nats-py does not survive some of these headers
        await user.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 4}, "agent": "n1"})
        job = await user.submit("carol")
        query = "SELECT count(*) FROM allocations WHERE job_id = ?"
        await user.until(lambda: rows(tmp_path / "rankd.db", query, job) == [(1,)])
        return (await user.do("diag.show")).body


async def test_all_services_work_on_and_start_again(broker, tmp_path):
    for seed in range(SEEDS):
        async with all_running(broker, tmp_path):
            await throw(broker.url, *SUBJECTS, *MORE_SUBJECTS)
            for subject in (*SUBJECTS, *MORE_SUBJECTS):
                publish_raw(broker.url, [(subject, None, payload) for payload in drawn(seed)])
            found = await works(broker, tmp_path)
        assert found["scheduler"]["unreadable"]["wake-up"] > 0
        assert found["prioritizer"]["health"]["ready"]  # it reads no message's content
