"""``rankd auth brokers``: three real brokers with a site's accounts. A revocation reaches all of them."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

import nats.errors
import pytest
from integration.broker_cluster import free_ports, ready
from integration.conftest import Broker
from soak.link import Link
from watch import PATIENCE_S

from rankd.bus.account_update import system_bus, update_accounts
from rankd.bus.connection import Bus
from rankd.bus.stream import ensure_streams
from rankd.cli.main import main
from rankd.core.errors import Refused
from rankd.identity.credentials import source_of
from rankd.identity.site import Role, Site, read_site, revoke
from rankd.wire.subject import STREAM_EVENTS

ALICE = (Role.USER, "alice")


class Cluster:
    """The brokers as the command has written them."""

    def __init__(self, directory, ports) -> None:
        self.auth = directory / "site" / "auth"
        self.brokers = []
        for number in range(3):
            broker = Broker(directory / f"b{number}")
            broker._configuration = directory / "out" / f"b{number}" / "server.conf"
            broker._port = ports[number]
            self.brokers.append(broker)

    @property
    def urls(self) -> list[str]:
        return [broker.url.replace("nats://", "tls://") for broker in self.brokers]

    @property
    def site(self) -> Site:
        return read_site(self.auth)

    def as_alice(self, url: str) -> Bus:
        """At this broker only: of several URLs, no others than the listed ones are used."""
        credentials = self.site.credentials(*ALICE, time.time())
        return Bus(f"{url},{url}", "alice", credentials=lambda: credentials)

    async def tell(self, ago_s: float = 0.0) -> int:
        """Give alice's account to the brokers; returns how many have it. The newest counts, in seconds."""
        async with system_bus(",".join(self.urls), self.site) as system:
            return await update_accounts(system, [self.site.account(*ALICE, time.time() - ago_s)])


@pytest.fixture
def cluster(tmp_path):
    ports = free_ports(6)
    named = [f"--broker=b{number}=127.0.0.1:{ports[number]}:{ports[3 + number]}" for number in range(3)]
    assert main(["auth", "brokers", "--dir", str(tmp_path / "site"), "--out", str(tmp_path / "out"), *named]) == 0
    found = Cluster(tmp_path, ports)
    for broker in found.brokers:
        broker.launch()
    yield found
    for broker in found.brokers:
        broker.kill()


def services(cluster) -> Bus:
    return Bus(",".join(cluster.urls), "services", credentials=source_of(cluster.auth / "services.creds"))


async def test_services_store_three_copies_and_a_user_gets_in_at_each_broker(cluster):
    async with services(cluster) as bus:
        await ready(bus)
        bus.stream_replicas = 3
        await ensure_streams(bus)
        assert len((await bus.jetstream.stream_info(STREAM_EVENTS)).cluster.replicas) == 2
        assert bus.client.is_encrypted
    with pytest.raises(Refused, match="does not accept"):
        async with cluster.as_alice(cluster.urls[0]):
            pass
    assert await cluster.tell() == 3
    for url in cluster.urls:
        async with cluster.as_alice(url) as alice:
            await alice.client.flush()


async def test_a_service_whose_network_is_away_gets_no_more_requests(cluster):
    """Several may answer. One that does not is sent its share of the requests until the broker knows."""
    link = Link(cluster.brokers[0]._port)
    await link.start()
    credentials = source_of(cluster.auth / "services.creds")
    async with Bus(f"tls://127.0.0.1:{link.port}", "services", credentials=credentials) as cut_off:
        await cut_off.client.subscribe("rankd.v1.test")
        await cut_off.client.flush()
        link.stall()
        async with services(cluster) as asking, asyncio.timeout(PATIENCE_S):
            while await is_sent_to_somebody(asking):
                pass
        link.mend()
    await link.stop()


async def is_sent_to_somebody(asking: Bus) -> bool:
    try:
        await asking.client.request("rankd.v1.test", b"", timeout=0.5)
    except nats.errors.NoRespondersError:
        return False
    except nats.errors.TimeoutError:
        return True
    raise AssertionError("nobody answers here")


async def test_a_revocation_ends_connections_at_all_brokers_also_at_one_that_was_away(cluster):
    assert await cluster.tell(ago_s=60) == 3
    async with AsyncExitStack() as stack:
        connected = [await stack.enter_async_context(cluster.as_alice(url)) for url in cluster.urls]
        cluster.brokers[2].kill()
        revoke(cluster.auth, *ALICE, time.time())
        assert await cluster.tell() == 2
        async with asyncio.timeout(PATIENCE_S):
            for alice in connected[:2]:
                await refused(alice)
        cluster.brokers[2].launch()
        async with asyncio.timeout(PATIENCE_S):
            await refused(connected[2])


async def refused(bus: Bus) -> None:
    with pytest.raises(Refused, match="does not accept the credentials of 'alice'"):
        await bus.until_refused()
