"""Ending the jobs of a keeper whose agent has ended."""

import asyncio
import logging
from contextlib import asynccontextmanager, suppress

import pytest

from rankd.services.keeper.message import SOCKET, Happened, Hello, line, read_ask
from rankd.services.keeper.orphan import end_kept
from rankd.wire.message import Report


@pytest.fixture
def state(tmp_path):
    (tmp_path / "allocations").mkdir()
    return tmp_path


def hello(*running):
    return line(Hello(pid=7, running=list(running), started=[], unwritten=[], limits="none"))


def ended(allocation, kind="ended"):
    return line(Happened(report=Report(allocation=allocation, job=9, kind=kind, at=8.0)))


@asynccontextmanager
async def listening(state, serve):
    """A keeper: ``serve`` is called with the reader and the writer of each connection."""
    tasks = set()

    async def attend(reader, writer):
        tasks.add(asyncio.current_task())
        await serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_unix_server(attend, state / SOCKET):
        yield
        await asyncio.gather(*tasks)


@asynccontextmanager
async def keeper(state, greeting, answer):
    """A keeper that greets, and that answers each request to end a job with ``answer(allocation)``."""
    asked = []

    async def serve(reader, writer):
        writer.write(greeting)
        while said := await reader.readline():
            asked.append(read_ask(said))
            for part in answer(asked[-1].allocation):
                writer.write(part)

    async with listening(state, serve):
        yield asked


async def test_without_a_keeper_nothing_happens(state, caplog):
    await end_kept(state, grace_s=0.0)
    assert not caplog.records


async def test_every_job_that_runs_is_ended(state, caplog):
    async with keeper(state, hello(3, 4), lambda id_: [ended(id_, "started"), ended(id_)]) as asked:
        await end_kept(state, grace_s=2.0)
    assert {(one.allocation, one.cause, one.grace_s) for one in asked} == {
        (3, "agent_stopped", 2.0), (4, "agent_stopped", 2.0),
    }  # fmt: skip
    assert not caplog.records


async def test_a_keeper_that_does_not_end_its_jobs_is_left_with_them(state, caplog):
    async with keeper(state, hello(3, 4), lambda id_: [ended(id_)] if id_ == 4 else []):
        await end_kept(state, grace_s=0.0, end_s=0.2)
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "has not ended the jobs of allocations 3 within" in record.getMessage()


async def test_a_keeper_that_is_silent_ends_its_jobs_when_it_continues(state, caplog):
    for name in ("3", "5", "spare"):
        (state / "allocations" / name).mkdir()
    async with keeper(state, b"", lambda _: []) as asked:
        await end_kept(state, grace_s=0.0, patience_s=0.1)
        async with asyncio.timeout(5):
            while len(asked) < 2:
                await asyncio.sleep(0.01)
    assert {one.allocation for one in asked} == {3, 5}
    assert "ends its jobs when it continues" in caplog.text


@pytest.mark.parametrize("n_read", [0, 1], ids=["before it reads the request", "after it"])
async def test_a_keeper_that_ends_meanwhile_leaves_no_complaint(state, caplog, n_read):
    async def serve(reader, writer):
        writer.write(hello(3))
        await writer.drain()
        for _ in range(n_read):
            await reader.readline()

    async with listening(state, serve):
        await end_kept(state, grace_s=0.0, end_s=5.0)
    assert not caplog.records
