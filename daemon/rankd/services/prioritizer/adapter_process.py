"""Starts the process that reads an adapter. When its time is over, ends it and everything that it started."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

import msgspec

from rankd.plugin.interpreter import python_command, python_environment
from rankd.services.prioritizer.adapter_worker import Answer, Task

START_S = 30.0
"""Added to the adapter's time limit, so that an interpreter can start on a busy machine."""
_ENVELOPE = 4096
_PER_BYTE = 8
"""An answer may have this many bytes for each byte of the input, since every row has the columns' names."""


async def read_adapter(task: Task) -> Answer:
    """Read an adapter. If it fails, the answer has an error."""
    process = await asyncio.create_subprocess_exec(
        *python_command("rankd.services.prioritizer.adapter_worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=python_environment(os.environ),
        start_new_session=True,
    )
    time_limit_s = task.settings.time_limit_s
    try:
        async with asyncio.timeout(time_limit_s + START_S):
            content = await _talk(process, msgspec.json.encode(task), _most(task))
            status = await process.wait()
    except TimeoutError:
        return Answer(error=f"the process that reads it took longer than {time_limit_s + START_S:g} s; ended")
    finally:
        await _end(process)
    if status == -signal.SIGALRM:
        return Answer(error=f"took longer than {time_limit_s:g} s; ended")
    if content is None:
        return Answer(error=f"sent more than {_most(task)} bytes; ended")
    try:
        return msgspec.json.decode(content, type=Answer)
    except msgspec.DecodeError:
        return Answer(error=f"the process that read it ended with status {status} and without an answer")


def _most(task: Task) -> int:
    return task.settings.largest_bytes * _PER_BYTE + _ENVELOPE


async def _talk(process: asyncio.subprocess.Process, task: bytes, most: int) -> bytes | None:
    """Send the task and read the answer; None if the answer has more than ``most`` bytes."""
    assert process.stdin is not None  # noqa: S101 - as it was started
    assert process.stdout is not None  # noqa: S101 - as it was started
    with suppress(ConnectionError):
        process.stdin.write(task)
        await process.stdin.drain()
        process.stdin.close()
    parts, size = [], 0
    while part := await process.stdout.read(65536):
        parts.append(part)
        size += len(part)
        if size > most:
            return None
    return b"".join(parts)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the process and its group, including processes that it left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
