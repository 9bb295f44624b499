"""``/metrics`` of a service over a real socket: what is answered, and what a hostile client gets."""

import asyncio

import pytest

from rankd.core.errors import Refused
from rankd.core.metric.figure import Figure
from rankd.services.runtime.metric.address import MetricsAddress
from rankd.services.runtime.metric.exported import Exported
from rankd.services.runtime.metric.listener import LARGEST_HEAD, MOST_CONNECTIONS, serving


@pytest.fixture
async def port(unused_tcp_port):
    exported = Exported("scheduler")
    exported.add(lambda: [Figure("rankd_cycles_total", 7)])

    def broken():
        raise RuntimeError("a bug")

    exported.add(broken)
    async with serving(MetricsAddress("127.0.0.1", unused_tcp_port), exported):
        yield unused_tcp_port


async def ask(port, request, *, ends=True):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        if ends:
            writer.write(b"\r\n\r\n")
        return (await reader.read()).decode()
    except ConnectionError:
        return ""
    finally:
        writer.close()


async def test_the_figures_are_served_although_one_source_fails(port):
    answer = await ask(port, b"GET /metrics HTTP/1.1\r\nHost: localhost:9102")
    assert answer.startswith("HTTP/1.1 200 OK\r\n")
    assert "\nrankd_cycles_total 7.0\n" in answer
    assert 'rankd_service_info{service="scheduler"' in answer
    assert "rankd_service_healthy" not in answer, "one that stands by is neither well nor unwell"


async def test_open_metrics_is_served_to_who_asks_for_it(port):
    answer = await ask(port, b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0,*/*;q=0.1")
    assert "application/openmetrics-text" in answer
    assert answer.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", "404"),
        (b"GET /metrics/../x HTTP/1.1", "404"),
        (b"POST /metrics HTTP/1.1", "405"),
        (b"\x16\x03\x01", "405"),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example.org", "421"),
    ],
)
async def test_nothing_else_is_answered(port, request_line, status):
    assert (await ask(port, request_line)).split()[1] == status


async def test_a_head_has_no_body(port):
    assert (await ask(port, b"HEAD /metrics HTTP/1.1")).endswith("\r\n\r\n")


async def test_an_endless_request_is_cut_off(port):
    assert await ask(port, b"GET /metrics HTTP/1.1\r\nX: " + b"a" * (2 * LARGEST_HEAD + 1)) == ""


async def test_one_connection_too_many_is_closed_and_the_next_scrape_is_answered(port):
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS)]
    assert await ask(port, b"GET /metrics HTTP/1.1", ends=False) == ""
    for _, writer in held:
        writer.close()
        await writer.wait_closed()
    while not (answer := await ask(port, b"GET /metrics HTTP/1.1")):
        await asyncio.sleep(0)
    assert answer.startswith("HTTP/1.1 200")


async def test_a_port_that_is_taken_is_refused_with_what_to_do(port):
    with pytest.raises(Refused, match="give a free port"):
        async with serving(MetricsAddress("127.0.0.1", port), Exported("intake")):
            pass
