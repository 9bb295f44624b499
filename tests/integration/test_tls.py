"""Encrypted connections to real servers, with certificates that each test makes: what counts, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from contextlib import asynccontextmanager

import pytest
from certificates import Authority
from integration.conftest import Broker
from listening import a_server
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Refused
from rankd.identity.credentials import source_of, write_private
from rankd.identity.site import Role, Site

HERE = ("localhost", "127.0.0.1")


def block(pair, more=""):
    """The server's configuration."""
    return f'tls {{ cert_file: "{pair.certificate}", key_file: "{pair.key}", timeout: 60 {more} }}'


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def serve(tmp_path):
    """Starts servers with these lines in their configuration."""
    started = []

    def start(more):
        server = Broker(tmp_path / f"broker-{len(started)}", more)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.kill()


def encrypted(server, host="127.0.0.1"):
    return server.url.replace("nats://127.0.0.1", f"tls://{host}")


async def refused(url, **files):
    """Why a connection is refused: at once, not when the time for it is over."""
    with pytest.raises(Refused) as error:
        async with asyncio.timeout(PATIENCE_S), Bus(url, "test", connect_timeout_s=None, tls=TlsFiles(**files)):
            pass
    return error.value


@pytest.mark.parametrize("scheme", ["tls", "nats"])
async def test_a_certificate_of_the_known_ca_for_this_host_counts(serve, authority, scheme):
    server = serve(block(authority.issue("broker", *HERE)))
    for host in HERE:
        url = encrypted(server, host).replace("tls", scheme)
        async with Bus(url, "test", tls=TlsFiles(ca=authority.ca)) as bus:
            assert bus.client.is_encrypted
            await bus.client.flush()


@pytest.mark.parametrize(
    ("names", "days", "said"),
    [
        (("elsewhere",), (-1, 1), "does not name '127.0.0.1'"),
        (("127.0.0.2",), (-1, 1), "does not name '127.0.0.1'"),
        (HERE, (-2, -1), "has expired"),
        (HERE, (1, 2), "is not valid yet; compare the clocks"),
    ],
    ids=["another name", "another address", "expired", "not yet"],
)
async def test_a_certificate_that_does_not_count_is_refused_with_the_reason(serve, authority, names, days, said):
    server = serve(block(authority.issue("broker", *names, days=days)))
    error = await refused(encrypted(server), ca=authority.ca)
    assert error.code == "not_trusted"
    assert said in error.message


@pytest.mark.parametrize("scheme", ["tls", "nats"])
async def test_an_unknown_ca_is_refused_with_what_to_give(serve, authority, tmp_path, scheme):
    server = serve(block(authority.issue("broker", *HERE)))
    url = encrypted(server).replace("tls", scheme)
    for files in ({}, {"ca": Authority(tmp_path, "another").ca}):
        error = await refused(url, **files)
        assert error.code == "unknown_ca"
        assert "is signed by a CA that is not known here; give the CA's certificate with --ca FILE" in error.message


async def test_mutual_tls_wants_a_certificate_of_the_servers_ca(serve, authority, tmp_path):
    server = serve(block(authority.issue("broker", *HERE), f', ca_file: "{authority.ca}", verify: true'))
    own, foreign = authority.issue("client", "client"), Authority(tmp_path, "another").issue("foreign", "client")
    files = {"ca": authority.ca, "cert": own.certificate, "key": own.key}
    async with Bus(encrypted(server), "test", tls=TlsFiles(**files)) as bus:
        await bus.client.flush()
    without = await refused(encrypted(server), ca=authority.ca)
    assert "wants a certificate of its clients; give --tls-cert FILE and --tls-key FILE" in without.message
    other = await refused(encrypted(server), ca=authority.ca, cert=foreign.certificate, key=foreign.key)
    assert f"does not accept the certificate in {foreign.certificate}" in other.message


async def test_a_certificate_and_its_key_may_be_in_one_file(serve, authority, tmp_path):
    server = serve(block(authority.issue("broker", *HERE), f', ca_file: "{authority.ca}", verify: true'))
    own = authority.issue("client", "client")
    both = tmp_path / "both.pem"
    both.write_bytes(own.certificate.read_bytes() + own.key.read_bytes())
    async with Bus(encrypted(server), "test", tls=TlsFiles(ca=authority.ca, cert=both)) as bus:
        await bus.client.flush()


async def test_a_client_that_sends_plain_text_is_cut_off(serve, authority):
    server = serve(block(authority.issue("broker", *HERE)))
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), PATIENCE_S) as plain:
        plain.settimeout(PATIENCE_S)
        assert b'"tls_required":true' in plain.recv(65_536)
        plain.sendall(b'CONNECT {"verbose":false}\r\nPUB here 1\r\nx\r\nPING\r\n')
        assert b"PONG" not in plain.recv(65_536)


@asynccontextmanager
async def a_plain_server(received):
    """A server that does not encrypt, and notes what it is sent: the network may have changed its first line."""

    async def serve(reader, writer):
        info = {"server_id": "x", "version": "2.12.0", "max_payload": 2**20, "auth_required": True, "nonce": "abc"}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        received.append(await reader.read(65_536))
        writer.close()
        served.set()

    served = asyncio.Event()
    async with a_server(serve) as port:
        yield port
        async with asyncio.timeout(PATIENCE_S):
            await served.wait()


@pytest.mark.parametrize(
    ("scheme", "has_ca", "why"),
    [("tls", False, "begins with tls://"), ("tls", True, "begins with tls://"), ("nats", True, "a CA's certificate")],
)
async def test_nothing_is_sent_to_a_server_that_does_not_encrypt(authority, scheme, has_ca, why):
    received = []
    async with a_plain_server(received) as port:
        files = {"ca": authority.ca} if has_ca else {}
        error = await refused(f"{scheme}://alice:secret@127.0.0.1:{port}", **files)
    assert error.code == "not_encrypted"
    assert "does not encrypt its connections" in error.message
    assert why in error.message
    assert "secret" not in error.message
    assert b"".join(received) == b""


async def test_credentials_of_a_site_that_encrypts_are_not_sent_in_plain_text(authority):
    site = Site(os.urandom(32), ca=authority.ca.read_text())
    received = []
    async with a_plain_server(received) as port:
        with pytest.raises(Refused, match="the credentials are of a site that encrypts") as error:
            async with Bus(
                f"nats://127.0.0.1:{port}", "test", credentials=lambda: site.credentials(Role.USER, "alice", 1.0)
            ):
                pass
    assert error.value.code == "not_encrypted"
    assert b"".join(received) == b""


async def test_the_ca_in_the_credentials_counts(serve, authority, tmp_path):
    server = serve(block(authority.issue("broker", *HERE)))
    site = Site(os.urandom(32), ca=authority.ca.read_text())
    file = tmp_path / "alice.creds"
    write_private(file, site.credentials(Role.USER, "alice", 1.0).text())
    async with Bus(server.url, "test", credentials=source_of(file)) as bus:
        assert bus.client.is_encrypted


async def test_a_connection_comes_back_when_the_server_has_another_certificate(serve, authority):
    pair = authority.issue("broker", *HERE)
    server = serve(block(pair))
    async with Bus(encrypted(server), "test", tls=TlsFiles(ca=authority.ca)) as bus:
        again = asyncio.Event()

        async def note():
            again.set()

        bus.after_reconnect.append(note)
        server.kill()
        authority.issue("broker", *HERE)
        server.start()
        async with asyncio.timeout(PATIENCE_S):
            await again.wait()
        assert bus.client.is_encrypted


async def test_a_connection_waits_while_the_server_has_a_wrong_certificate(serve, authority):
    """It may be mended: a service that runs does not end for it."""
    server = serve(block(authority.issue("broker", *HERE)))
    async with Bus(encrypted(server), "test", tls=TlsFiles(ca=authority.ca)) as bus:
        back, reasons, failed = asyncio.Event(), [], asyncio.Event()

        async def note():
            back.set()

        def on_lost(error):
            reasons.append(str(error))
            if "has expired" in reasons[-1]:
                failed.set()

        bus.after_reconnect.append(note)
        bus.outage.lost = on_lost
        server.kill()
        authority.issue("broker", *HERE, days=(-2, -1))
        server.start()
        async with asyncio.timeout(PATIENCE_S):
            await failed.wait()
        assert not back.is_set()
        server.kill()
        authority.issue("broker", *HERE)
        server.start()
        async with asyncio.timeout(PATIENCE_S):
            await back.wait()


async def test_renewed_files_of_the_client_count_at_the_next_connection(serve, authority):
    server = serve(block(authority.issue("broker", *HERE), f', ca_file: "{authority.ca}", verify: true'))
    own = authority.issue("client", "client")
    async with Bus(encrypted(server), "test", tls=TlsFiles(ca=authority.ca, cert=own.certificate, key=own.key)) as bus:
        again = asyncio.Event()

        async def note():
            again.set()

        bus.after_reconnect.append(note)
        own.certificate.write_text("half of it")  # it is just being written
        server.kill()
        server.start()
        async with asyncio.timeout(PATIENCE_S):
            await again.wait()
            again.clear()
        before = bus.client.ssl_context
        authority.issue("client", "client")
        assert bus.client.ssl_context is not before
        server.kill()
        server.start()
        async with asyncio.timeout(PATIENCE_S):
            await again.wait()
