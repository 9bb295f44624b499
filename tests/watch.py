"""Waiting for what other processes do, on the kernel's word: a file that is written, a process that ends."""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = float(os.environ.get("RANKD_TEST_PATIENCE_S", "300"))
"""How long a test waits for what must come. A busy machine takes its time; that is not a fault."""

SLOWNESS = float(os.environ.get("RANKD_TEST_SLOWNESS", "1"))
"""How much longer a program takes to start here than on an ordinary machine: 10 where the processor is emulated."""

LOOK_EVERY_S = 0.05
"""How often a test looks for what nobody announces. Without pauses, it takes a core from what it waits for."""

IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x8, 0x80, 0x100, 0x200
ALL_CHANGES = IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_DELETE
_libc = ctypes.CDLL(None, use_errno=True)


def comes(look: Callable[[], T]) -> T:
    """What ``look`` gives, once that is true. For what no file, process or message announces."""
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end, f"it did not come in {PATIENCE_S} s; the last look gave {found!r}"
        time.sleep(LOOK_EVERY_S)
    return found


async def appears(path: Path) -> str:
    """The text of a file in a directory that is there, once something is written and closed, moved or linked there."""
    with _changes_in(path.parent) as changes:
        async with asyncio.timeout(PATIENCE_S), _readable(changes) as news:
            while not (path.exists() and (text := path.read_text())):
                await news.wait()
                news.clear()
                with suppress(BlockingIOError):  # told again of what was read already
                    os.read(changes, 65536)
            return text


async def vanishes(path: Path) -> None:
    """Until a file is removed from a directory that is there."""
    with _changes_in(path.parent) as changes:
        async with asyncio.timeout(PATIENCE_S), _readable(changes) as news:
            while path.exists():
                await news.wait()
                news.clear()
                with suppress(BlockingIOError):
                    os.read(changes, 65536)


async def gone(pid: int) -> None:
    """Until a process has ended, whoever's child it is and whether or not its parent knows."""
    with _end_of(pid) as end:
        if end is not None:
            async with asyncio.timeout(PATIENCE_S), _readable(end) as ended:
                await ended.wait()


def gone_within(pid: int, seconds: float) -> bool:
    """As :func:`gone`, without a loop: whether it ended in time."""
    with _end_of(pid) as end:
        return end is None or bool(select.select([end], [], [], seconds)[0])


def alive(pid: int) -> bool:
    return not gone_within(pid, 0)


@contextmanager
def _end_of(pid: int) -> Iterator[int | None]:
    """A descriptor that can be read once the process has ended; None if there is none."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _changes_in(directory: Path) -> Iterator[int]:
    """A descriptor that can be read once a file there was closed after writing, moved, linked or removed there."""
    descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    try:
        if _libc.inotify_add_watch(descriptor, bytes(directory), ALL_CHANGES) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", str(directory))
        yield descriptor
    finally:
        os.close(descriptor)


@asynccontextmanager
async def _readable(descriptor: int) -> AsyncIterator[asyncio.Event]:
    """An event that is set whenever there is something to read."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, event.set)
    try:
        yield event
    finally:
        loop.remove_reader(descriptor)
