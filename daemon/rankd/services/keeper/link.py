"""The agent's connection to its keeper: finds or starts it, sends requests, and receives its reports."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from rankd.bus.liveness import IDLE_S, Loop
from rankd.core.errors import Unavailable
from rankd.core.model.secret import is_secret
from rankd.plugin.interpreter import python_command, python_environment
from rankd.services.keeper.connection import (
    PATIENCE_S,
    SILENT,
    first_line,
    hello_of,
    pid_of,
    reach,
    silent,
    socket_path,
)
from rankd.services.keeper.message import (
    LONGEST_LINE,
    Ask,
    Happened,
    Hello,
    Ordered,
    Ping,
    StepHappened,
    line,
    read_tell,
)
from rankd.services.keeper.pulse import LOOK_EVERY_S, SILENT_S, Pulse, heard, look, unable
from rankd.services.runtime.log_file import open_log
from rankd.wire.message import Report

log = logging.getLogger("rankd.agent")

LOG = "keeper.log"
OWN_VARIABLES = "RANKD_"
END_S = 5.0
AGAIN_S = 1.0
ATTEMPTS = 3
"""More than one, because a keeper that is about to end may still accept a connection."""


class KeeperLink:
    """One connection at a time. ``up`` is set while requests can be sent. ``on_lost`` ends a lost keeper's jobs."""

    def __init__(
        self,
        state: Path,
        on_report: Callable[[Report], None],
        on_lost: Callable[[], Awaitable[None]],
    ) -> None:
        self.up = asyncio.Event()
        self._state = state
        self._on_report = on_report
        self.on_step: Callable[[StepHappened], None] = lambda _step: None
        """What to do when a shell or step starts or ends."""
        self.on_ordered: Callable[[int], None] = lambda _order: None
        """What to do when an order is carried out."""
        self._on_lost = on_lost
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._pulse: Pulse | None = None
        self._lack: str | None = None
        self._closing = False

    @property
    def unable(self) -> str | None:
        """Why no jobs can be started (the keeper does not answer); None if they can."""
        return unable(self._pulse, SILENT_S) if self._pulse else None

    async def connect(self) -> Hello:
        """Connect to the keeper, or start one; returns its first message.

        Raises:
            Unavailable: ``keeper_silent``: the keeper does not answer. ``no_keeper``: none can be started.
        """
        pid = None
        for _ in range(ATTEMPTS):
            connection = reach(self._state)
            if connection is None:
                connection = await self._start()
            pid = pid_of(connection)
            self._reader, self._writer = await asyncio.open_unix_connection(sock=connection, limit=LONGEST_LINE)
            said = await first_line(self._reader, PATIENCE_S)
            if said is None:
                break
            if said:
                hello = hello_of(said)
                self._pulse = Pulse(pid=hello.pid, looked_at=time.monotonic()) if hello.pongs else None
                self.up.set()
                return hello
            self.drop()
        self.drop()
        raise silent(self._state, pid)

    async def _start(self) -> socket.socket:
        try:
            return await asyncio.to_thread(self._spawn)
        except OSError as error:
            message = f"can't start a process in {self._state} that holds this node's jobs: {error.strerror}"
            raise Unavailable("no_keeper", message) from error

    def waits_for(self) -> str | None:
        """Why there is no keeper at present; None if there is one."""
        return self._lack

    async def run(self, loop: Loop) -> None:
        """Pass on reports until :meth:`close`; replace a keeper that was killed."""
        while True:
            await self._listen(loop)
            self.up.clear()
            self._pulse = None
            if self._closing:
                return
            log.error("the process that held this node's jobs has ended; its jobs are lost")
            self.drop()
            await self._on_lost()
            await self._replace(loop)

    async def _replace(self, loop: Loop) -> None:
        """Start another keeper; retry until it works, because for example the disk may be full."""
        while not self._closing:
            loop.beat()
            try:
                await self.connect()
                self._drop_if_closed()
            except Unavailable as error:
                if self._lack != error.message:
                    log.error("%s; trying again", error.message)  # noqa: TRY400
                self._lack = error.message
                await asyncio.sleep(AGAIN_S)
            else:
                self._lack = None
                return

    def _drop_if_closed(self) -> None:
        """Leave the other keeper, which ends by itself, if this object was closed while it started."""
        if self._closing:
            self.drop()

    async def _listen(self, loop: Loop) -> None:
        if self._reader is None:
            return
        with suppress(OSError):
            while said := await _next_line(self._reader, loop):
                told = read_tell(said)
                self._heard()
                if isinstance(told, Happened):
                    self._on_report(told.report)
                elif isinstance(told, StepHappened):
                    self.on_step(told)
                elif isinstance(told, Ordered):
                    self.on_ordered(told.order)

    def _heard(self) -> None:
        if self.unable:
            log.info("the keeper answers again: this node takes jobs again")
        if self._pulse:
            self._pulse = heard(self._pulse)

    async def feel_pulse(self, loop: Loop) -> None:
        """Ping the keeper until cancelled, and log when it stops answering."""
        while True:
            loop.beat()
            if self._pulse:
                self._look(self._pulse)
            await asyncio.sleep(LOOK_EVERY_S)

    def _look(self, pulse: Pulse) -> None:
        was_unable = self.unable
        self._pulse, pings = look(pulse, time.monotonic(), LOOK_EVERY_S)
        if pings:
            self.ask(Ping())
        if self.unable and not was_unable:
            log.error("%s: this node takes no jobs until it answers", self.unable)

    def ask(self, message: Ask) -> None:
        """Send a request. It is lost if the keeper is lost, which :meth:`run` notices."""
        if self._writer is not None:
            self._writer.write(line(message))

    async def close(self, *, keeps_jobs: bool) -> None:
        """Send the remaining requests, and disconnect. Waits for the end of a keeper that holds no more jobs."""
        self._closing = True
        if self._writer is not None:
            await self._close(self._writer)
        if self._keeper is not None and not keeps_jobs:
            with suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._keeper.wait, END_S)
        self._leave()

    async def _close(self, writer: asyncio.StreamWriter) -> None:
        writer.close()
        try:
            async with asyncio.timeout(END_S):
                await writer.wait_closed()
        except TimeoutError:
            log.error("%s; it did not receive every request", silent(self._state).message)  # noqa: TRY400
            writer.transport.abort()
        except OSError:  # the keeper has ended
            return

    def drop(self) -> None:
        """Disconnect from the keeper, even if it holds jobs."""
        if self._writer is not None:
            self._writer.close()
        self._leave()

    def _leave(self) -> None:
        """Leave a keeper running that outlives this object; Python would warn of it."""
        if self._keeper is not None and self._keeper.poll() is None:
            self._keeper.returncode = 0

    def _spawn(self) -> socket.socket:
        """Start a keeper on a socket that already listens; returns a connection to it."""
        with socket_path(self._state) as path, open_log(self._state / LOG) as output:
            Path(path).unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
                os.fchmod(listening.fileno(), 0o600)
                listening.bind(path)
                listening.listen()
                self._keeper = subprocess.Popen(  # noqa: S603 - our own command
                    _command(self._state, listening.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd="/",
                    env=process_environment(),
                    pass_fds=[listening.fileno()],
                    start_new_session=True,
                )
        connection = reach(self._state)
        if connection is None:
            raise Unavailable(SILENT, f"no keeper listens in {self._state}; see keeper.log there")
        return connection


def process_environment() -> dict[str, str]:
    """The environment of a process that needs no broker: no variable of rankd's, and none that looks secret."""
    return {
        name: value
        for name, value in python_environment(os.environ).items()
        if not name.startswith(OWN_VARIABLES) and not is_secret(name, value)
    }


def _command(state: Path, descriptor: int) -> list[str]:
    return python_command("rankd.services.keeper.service", str(state), str(descriptor))


async def _next_line(reader: asyncio.StreamReader, loop: Loop) -> bytes:
    """The next line; empty at the end of the stream."""
    while True:
        loop.beat()
        with suppress(TimeoutError):
            async with asyncio.timeout(IDLE_S):
                return await reader.readline()
