"""A connection that may use several brokers: it takes one that lives, and moves when that dies."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from certificates import Authority
from integration.conftest import Broker
from listening import a_server as serving
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Refused, Unavailable
from rankd.identity.site import Role, Site
from rankd.identity.static_configuration import Member, configuration

SITE = Site(bytes(32))
ALICE = Member(Role.USER, "alice")
NOWHERE = "nats://127.0.0.1:1"


@pytest.fixture
def serve(tmp_path):
    """Starts servers with these lines in their configuration."""
    started = []

    def start(more=""):
        server = Broker(tmp_path / f"broker-{len(started)}", more)
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.kill()


def list_of(*brokers):
    return ",".join(broker.url for broker in brokers)


def used(bus, brokers):
    [found] = [broker for broker in brokers if broker.url.endswith(f":{bus.client.connected_url.port}")]
    return found


async def moved(bus, brokers):
    """Kill the broker in use; returns the one that is used then."""
    news = asyncio.Event()

    async def note():
        news.set()

    bus.after_reconnect.append(note)
    before = used(bus, brokers)
    before.kill()
    async with asyncio.timeout(PATIENCE_S):
        await news.wait()
    before.start()  # for the end of the test
    assert used(bus, brokers) is not before
    return used(bus, brokers)


async def test_a_connection_takes_a_broker_that_lives(serve):
    broker = serve()
    for _ in range(4):  # the order is random
        async with Bus(f"{NOWHERE},{broker.url},nats://127.0.0.1:2", "test") as bus:
            assert used(bus, [broker]) is broker


async def test_a_connection_moves_and_hears_what_it_subscribed(serve):
    brokers = [serve(), serve()]
    async with Bus(list_of(*brokers), "test") as bus:
        heard = await bus.client.subscribe("here")
        await moved(bus, brokers)
        await bus.client.flush()
        await bus.client.publish("here", b"after")
        assert (await heard.next_msg(timeout=PATIENCE_S)).data == b"after"


async def test_without_a_broker_that_lives_all_of_them_are_named():
    with pytest.raises(Unavailable, match=r"no NATS server at nats://127.0.0.1:1,nats://127.0.0.1:2"):
        async with Bus(f"{NOWHERE},nats://127.0.0.1:2", "test", connect_timeout_s=0.2):
            pass


async def test_credentials_count_at_each_broker(serve):
    text = configuration(SITE, [ALICE])
    brokers = [serve(text), serve(text)]
    credentials = SITE.static_credentials(*ALICE, time.time())
    async with Bus(list_of(*brokers), "test", credentials=lambda: credentials) as bus:
        await moved(bus, brokers)
        assert bus.user == "alice"


async def test_one_broker_that_does_not_know_the_user_is_passed_over(serve):
    """An account reaches the brokers of a cluster one after the other."""
    knows, does_not = serve(configuration(SITE, [ALICE])), serve(configuration(SITE, []))
    credentials = SITE.static_credentials(*ALICE, time.time())
    for _ in range(4):
        async with Bus(list_of(knows, does_not), "test", credentials=lambda: credentials) as bus:
            assert used(bus, [knows, does_not]) is knows


async def test_credentials_that_no_broker_accepts_are_refused_at_once(serve):
    brokers = [serve(configuration(SITE, [])), serve(configuration(SITE, []))]
    credentials = SITE.static_credentials(*ALICE, time.time())
    with pytest.raises(Refused, match="does not accept the credentials of 'alice'"):
        async with Bus(list_of(*brokers), "test", connect_timeout_s=None, credentials=lambda: credentials):
            pass


async def test_each_broker_has_a_certificate_for_its_own_name(serve, tmp_path):
    authority = Authority(tmp_path)
    brokers, urls = [], []
    for host in ("127.0.0.1", "localhost"):
        pair = authority.issue(host, host)
        brokers.append(serve(f'tls {{ cert_file: "{pair.certificate}", key_file: "{pair.key}", timeout: 60 }}'))
        urls.append(brokers[-1].url.replace("nats://127.0.0.1", f"tls://{host}"))
    async with Bus(",".join(urls), "test", tls=TlsFiles(ca=authority.ca)) as bus:
        await moved(bus, brokers)
        assert bus.client.is_encrypted
    crossed = [urls[0].replace("127.0.0.1", "localhost"), urls[1].replace("localhost", "127.0.0.1")]
    with pytest.raises(Refused, match=r"does not name '(localhost|127.0.0.1)'"):
        async with Bus(",".join(crossed), "test", connect_timeout_s=None, tls=TlsFiles(ca=authority.ca)):
            pass


async def test_of_several_only_the_listed_ones_are_used_and_of_one_also_those_that_it_names():
    """A server names the addresses that it knows, which may be inner ones of its network."""

    async def serve_named(reader, writer):
        info = {"server_id": "x", "version": "2.12.0", "max_payload": 2**20, "connect_urls": ["10.255.255.1:4222"]}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")

    async with serving(serve_named) as port:
        url = f"nats://127.0.0.1:{port}"
        async with Bus(url, "test") as bus:
            assert [found.hostname for found in bus.client.servers] == ["127.0.0.1", "10.255.255.1"]
        async with Bus(f"{url},{url}", "test") as bus:
            assert {found.hostname for found in bus.client.servers} == {"127.0.0.1"}
