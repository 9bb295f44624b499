"""The agent's watcher: starts it, reads what it sees, and notices when it is silent or has ended.

A vendor's library may hang for minutes if a card is sick. Then the watcher is silent, and nothing else of the agent
waits for it. It is killed, and another one is started once it has ended; a process that the kernel holds can't end
before that. So there is never more than one.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from rankd.bus.liveness import IDLE_S, Loop
from rankd.plugin.interpreter import python_command
from rankd.services.keeper.link import process_environment
from rankd.services.watcher.message import LONGEST_LINE, NOTHING, TREE, Look, read_look

log = logging.getLogger("rankd.agent")

LIBRARY = "libnvidia-ml.so.1"
FIRST_S = 30.0
"""How long an agent waits for the first look before it registers. A driver that must be loaded first takes seconds."""
SILENT_S = 60.0
AGAIN_S = 5.0
LONGEST_PAUSE_S = 300.0
END_S = 5.0


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where cards are looked for: NVIDIA's library, and where /proc, /sys and /dev are."""

    library: str = LIBRARY
    root: Path = Path("/")

    def may_have_cards(self) -> bool:
        """Whether a driver or its library is here. Without one no watcher is needed."""
        return (self.root / TREE).exists() or _can_be_loaded(self.library)


class DeviceWatch:
    """The watcher and its last look. ``on_look`` is called with each look, and with None once the watcher is silent."""

    def __init__(self, machine: Machine, on_look: Callable[[Look | None], None]) -> None:
        self._machine = machine
        self._on_look = on_look
        self._process: asyncio.subprocess.Process | None = None
        self._heard_at = 0.0
        self._pause_s = AGAIN_S
        self._problem: str | None = None
        self._is_silent = False

    def waits_for(self) -> str | None:
        """Why the devices are not seen at present; None if they are."""
        return self._problem

    async def begin(self) -> bool:
        """Start the watcher, and wait for its first look; returns whether this machine may have cards."""
        if not await asyncio.to_thread(self._machine.may_have_cards):
            return False
        await self._start()
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_S):
                return await self._next() or await self._goes_on()
        self._fall_silent(f"no look at the devices within {FIRST_S:g} s")
        return True

    async def run(self, loop: Loop) -> None:
        """Read looks until the watcher finds that there are no cards."""
        while True:
            loop.beat()
            if self._process is None:
                await self._start()
            try:
                async with asyncio.timeout(IDLE_S):
                    has_more = await self._next() or await self._goes_on()
            except TimeoutError:
                self._look_at_silence()
                continue
            if not has_more:
                return
            if self._process is None:
                loop.beat(self._pause_s)
                await asyncio.sleep(self._pause_s)
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    async def _start(self) -> None:
        command = python_command("rankd.services.watcher.service", self._machine.library, str(self._machine.root))
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe,
            stdout=pipe,
            limit=LONGEST_LINE,
            cwd="/",
            env=process_environment(),
            start_new_session=True,
        )
        self._heard_at = time.monotonic()

    async def _next(self) -> bool:
        """Handle the next look; returns False at the end of the watcher."""
        if self._process is None or self._process.stdout is None:
            return False
        try:
            look = read_look(said) if (said := await self._process.stdout.readline()) else None
        except (ValueError, msgspec.MsgspecError):  # too long, or the last line of a watcher that was killed
            look = None
        if look is None:
            return False
        self._heard_at, self._pause_s = time.monotonic(), AGAIN_S
        if self._is_silent or look.problem != self._problem:
            log.log(logging.WARNING if look.problem else logging.INFO, "devices: %s", look.problem or "seen again")
        self._problem, self._is_silent = look.problem, False
        self._on_look(look)
        return True

    async def _goes_on(self) -> bool:
        """Handle the end of the watcher; returns whether another one has to be started."""
        if self._process is None:
            return True
        status = await self._process.wait()
        self._process = None
        if status == NOTHING:
            return False
        self._fall_silent(f"the process that looks at the devices has ended with {status}")
        return True

    def _look_at_silence(self) -> None:
        if self._process and time.monotonic() - self._heard_at > SILENT_S:
            self._fall_silent(f"no look at the devices for {SILENT_S:g} s: a card or its driver hangs")
            with suppress(ProcessLookupError):
                self._process.kill()

    def _fall_silent(self, problem: str) -> None:
        if not self._is_silent:
            log.error("%s; they are not offered until it answers", problem)
            self._on_look(None)
        self._problem, self._is_silent = problem, True

    async def close(self) -> None:
        """End the watcher. One that hangs is killed, and not waited for."""
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        try:
            async with asyncio.timeout(END_S):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()


def _can_be_loaded(library: str) -> bool:
    """Whether there is such a library. It is not used here: its calls may hang."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
