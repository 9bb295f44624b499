"""Headers of messages, as the client of the bus reads them."""

import asyncio

import pytest

from rankd.bus.client import PatientClient

BY_BROKER = b'Nats-Request-Info: {"acc":"USER-alice","rtt":91234}\r\n'


def message(lines: bytes) -> bytes:
    return b"NATS/1.0\r\n" + lines + b"\r\n"


@pytest.mark.parametrize(
    ("headers", "read"),
    [
        (None, None),
        (b"", None),
        (message(BY_BROKER), None),
        (message(b"Nats-Msg-Id: 7\r\n"), {"Nats-Msg-Id": "7"}),
        (b"NATS/1.0 503\r\n\r\n", {"Status": "503"}),
    ],
)
async def test_the_brokers_own_header_is_left_out(headers, read):
    assert await PatientClient()._process_headers(headers) == read


@pytest.mark.parametrize("lines", [BY_BROKER + b"Nats-Msg-Id: 7\r\n", b"Nats-Msg-Id: 7\r\n" + BY_BROKER])
async def test_a_header_of_the_sender_is_read_beside_that_of_the_broker(lines):
    assert (await PatientClient()._process_headers(message(lines)))["Nats-Msg-Id"] == "7"


@pytest.mark.parametrize("headers", [b"NATS/1.0\r\nNats-Request-Info:", b"NATS/1.0\r\nNats-Request-Info:\r\n"])
async def test_headers_that_are_cut_off_are_no_error(headers):
    await PatientClient()._process_headers(headers)


class Dropping(PatientClient):
    """Its socket is dropped while it hears of the server."""

    async def _process_info(self, info, initial_connection=False):
        await super()._process_info(info, initial_connection)
        self._drop_socket()


async def test_a_connection_that_is_lost_while_it_is_made_is_an_error_of_its_socket():
    """nats-py's loop that reconnects goes on after such an error only."""

    async def greet(reader, writer):
        writer.write(b'INFO {"server_id": "x", "version": "2.12.0", "max_payload": 1048576}\r\n')
        await reader.read()
        writer.close()
        await writer.wait_closed()
        has_ended.set()

    has_ended = asyncio.Event()
    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(ConnectionResetError):
        await Dropping().connect(url, allow_reconnect=False)
    await has_ended.wait()
    server.close()
    await server.wait_closed()
