"""A NATS server of one's own: the printed accounts, and the test that finds what is missing or too much."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

import pytest
from integration.conftest import Broker

from rankd.bus.access_check import check_access
from rankd.bus.connection import Bus
from rankd.bus.stream import ensure_streams
from rankd.core.errors import Refused
from rankd.identity.site import Role, Site
from rankd.identity.static_configuration import Member, configuration
from rankd.wire.subject import STREAM_EVENTS, STREAM_SUBMISSIONS

SITE = Site(bytes(32))
ALICE, ROOT, NODE = Member(Role.USER, "al.ice"), Member(Role.ADMIN, "root"), Member(Role.NODE, "n1")


@pytest.fixture
def serve(tmp_path):
    started = []

    def start(accounts):
        server = Broker(tmp_path / f"broker-{len(started)}", accounts)
        started.append(server)
        server.start()
        return server.url

    yield start
    for server in started:
        server.kill()


def connection(url, role, name=""):
    return Bus(url, "test", credentials=lambda: SITE.static_credentials(role, name, time.time()))


async def wrong(url, *members):
    """What is not as it must be: who, what, on which subject, and whether it is permitted."""
    found = []
    async with connection(url, Role.SERVICES) as services:
        for member in members:
            async with connection(url, *member) as other:
                rows = await check_access(services, other, *member)
                assert len(rows) > 20
                found += [(member.name, *row[:3]) for row in rows if not row.is_right]
    return found


async def test_the_printed_accounts_keep_everybody_apart_and_let_everybody_work(serve):
    url = serve(configuration(SITE, [ALICE, ROOT, NODE]))
    assert await wrong(url, ALICE, ROOT, NODE) == []


async def test_the_test_leaves_nothing_in_streams(serve):
    url = serve(configuration(SITE, [ROOT]))
    async with connection(url, Role.SERVICES) as services:
        await ensure_streams(services)
        assert await wrong(url, ROOT) == []
        for stream in (STREAM_EVENTS, STREAM_SUBMISSIONS):
            assert (await services.jetstream.stream_info(stream)).state.last_seq == 0


async def test_who_is_not_in_the_file_does_not_get_in(serve):
    url = serve(configuration(SITE, [ALICE]))
    with pytest.raises(Refused, match="does not accept the credentials of 'bob'"):
        async with connection(url, Role.USER, "bob"):
            pass


async def test_what_is_missing_is_found(serve):
    text = configuration(SITE, [ALICE, NODE])
    lines = [line for line in text.splitlines() if "event.ranking" not in line and "n1.take" not in line]
    assert await wrong(serve("\n".join(lines)), ALICE, NODE) == [
        ("al.ice", "hear", "rankd.v1.event.ranking", True),
        ("n1", "ask", "rankd.v1.node.n1.take", True),
    ]


async def test_what_is_too_much_is_found(serve):
    more = '{service: {account: "RANKD", subject: "rankd.v1.node.n1.take"}}'
    others, imports, own = configuration(SITE, [Member(Role.USER, "n1")]).rpartition("imports: [")
    text = f"{others}{imports}\n      {more}{own}"
    assert await wrong(serve(text), Member(Role.USER, "n1")) == [("n1", "ask", "rankd.v1.node.n1.take", False)]


async def test_one_account_for_all_is_found(serve):
    """With permissions or without: replies can be forged, and streams reached."""
    keys = [SITE.static_key(Role.SERVICES, "").public, SITE.static_key(*ALICE).public]
    users = ", ".join(f"{{nkey: {key}}}" for key in keys)
    found = await wrong(serve(f"accounts {{ ALL {{ jetstream: enabled, users: [{users}] }} }}"), ALICE)
    assert {what for _, what, _, _ in found} == {"ask", "hear", "forge a reply", "use streams"}
    assert not [row for row in found if row[3]]


async def test_the_server_takes_services_streams_and_events_as_with_tokens(serve):
    """The whole way of an event: stored by the services, heard by its user."""
    url = serve(configuration(SITE, [ALICE]))
    async with AsyncExitStack() as stack:
        services = await stack.enter_async_context(connection(url, Role.SERVICES))
        alice = await stack.enter_async_context(connection(url, *ALICE))
        await ensure_streams(services)
        heard = await alice.client.subscribe("rankd.v1.event.job.al%2Eice")
        await alice.client.flush()
        await services.jetstream.publish("rankd.v1.event.job.al%2Eice", b"{}")
        assert (await heard.next_msg(timeout=10)).data == b"{}"
