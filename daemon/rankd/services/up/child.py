"""A child process of ``rankd up``: it has its own process group, ends when ``up`` dies, and is restarted by it."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rankd.core.errors import Unavailable
from rankd.core.printable import printable
from rankd.plugin.interpreter import python_command, python_environment
from rankd.services.runtime.log_file import last_line, open_log
from rankd.services.up.forked import Forked
from rankd.services.up.nursery import Nursery, NurseryLost, Plan

log = logging.getLogger("rankd.up")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
STEADY_S = 10.0
"""After a run of this many seconds, a process gets the first pause again."""

HOPELESS = 5
"""``up`` gives up after this many ends in a row if the process was never ready."""

STOP_PATIENCE_S = 20.0

_PR_SET_PDEATHSIG = 1


class Manner(NamedTuple):
    """How a child is run. ``orphaned`` is the signal that it gets when ``up`` dies for any reason.

    ``variables`` are added to its environment. ``nursery`` forks it; without one, a new process executes the command.
    ``stopping`` is the signal that asks it to end.
    """

    orphaned: signal.Signals = signal.SIGTERM
    umask: int = 0o077
    stop_patience_s: float = STOP_PATIENCE_S
    variables: Mapping[str, str] = {}
    nursery: Nursery | None = None
    stopping: signal.Signals = signal.SIGTERM


def _die_with_parent(parent: int, number: signal.Signals) -> None:
    """Ask for a signal when the parent dies. Runs in the child, before exec."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # the parent died before that
        os._exit(1)


class Child:
    """One process that is kept running until :meth:`stop`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path,
        on_start: Callable[[], None],
        manner: Manner = Manner(),  # noqa: B008 - it never changes
    ) -> None:
        self.name = name
        self.was_ready = False
        self._manner = manner
        self._command = list(command)
        self._log_file = log_file
        self._on_start = on_start
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._forking: asyncio.Future[Forked] | None = None
        self._ending = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """The pid of the running process; None if it does not run."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process else None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    async def keep(self) -> None:
        """Start the process, and again whenever it ends, with growing pauses.

        Raises:
            Unavailable: ``service_failed``: the process never became ready.
        """
        pause, failures = FIRST_PAUSE_S, 0
        while not self._ending.is_set():
            begun = time.monotonic()
            try:
                status = _described(await self._run())
            except OSError as error:
                status = f"not started: {error}"
            if self._ending.is_set():
                return
            steady = time.monotonic() - begun > STEADY_S
            failures = 0 if self.was_ready else failures + 1
            if failures >= HOPELESS:
                raise Unavailable("service_failed", self._hopeless(status))
            pause = FIRST_PAUSE_S if steady else pause
            log.warning("%s ended (%s); starting it again in %.1f s", self.name, status, pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _hopeless(self, status: str) -> str:
        said = last_line(self._log_file)
        its_last = f"the last line of its log {self._log_file}: {said}" if said else f"its log is {self._log_file}"
        return printable(f"{self.name} does not start ({status}); {its_last}")

    async def _run(self) -> int:
        """Start the process and wait for its end; returns its status."""
        process = await self._start()
        self._on_start()
        return await asyncio.to_thread(process.wait)

    async def _start(self) -> subprocess.Popen[bytes] | Forked:
        """Start the process, by the nursery if there is one.

        Raises:
            OSError: it can't be started, or not any more.
        """
        if self._manner.nursery is not None:
            with suppress(NurseryLost):
                self._forking = asyncio.get_running_loop().run_in_executor(None, self._fork, self._manner.nursery)
                return await asyncio.shield(self._forking)
        if self._ending.is_set():
            raise OSError("it is to end")
        self._process = process = self._execute()
        return process

    def _fork(self, nursery: Nursery) -> Forked:
        """Let the nursery fork it. This runs on a thread, since the nursery may still import."""
        arguments = self._command[len(python_command("rankd")) :]
        plan = Plan(arguments, self._environment(), self._manner.umask, self._manner.orphaned, os.getpid())
        with open_log(self._log_file) as output:
            self._process = process = nursery.fork(plan, output.fileno())
        return process

    def _execute(self) -> subprocess.Popen[bytes]:
        """Execute its command in a new process."""
        with open_log(self._log_file) as output:
            return subprocess.Popen(  # noqa: S603 - our own command; a few at start-up
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment(),
                process_group=0,
                umask=self._manner.umask,
                preexec_fn=partial(_die_with_parent, os.getpid(), self._manner.orphaned),  # noqa: PLW1509 - as before exec
            )

    def _environment(self) -> dict[str, str]:
        return python_environment({**os.environ, **self._manner.variables})

    async def _latest(self) -> subprocess.Popen[bytes] | Forked | None:
        """The process, also if the nursery is about to fork it; None if it was never started."""
        if self._forking is not None:
            await asyncio.wait([self._forking])
        return self._process

    async def kill(self) -> None:
        """Send KILL; returns when the process has ended."""
        self._ending.set()
        if (process := await self._latest()) is not None:
            self.signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait)

    async def stop(self) -> None:
        """Send TERM, or what else it wants, wait, send KILL; returns when the process has ended."""
        self._ending.set()
        if (process := await self._latest()) is None:
            return
        process.send_signal(self._manner.stopping)
        try:
            await asyncio.to_thread(process.wait, self._manner.stop_patience_s)
        except subprocess.TimeoutExpired:
            log.warning("%s did not stop within %.0f s; killing it", self.name, self._manner.stop_patience_s)
            os.killpg(process.pid, signal.SIGKILL)
            await asyncio.to_thread(process.wait)


def _described(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
