"""``report.make`` and ``report.part``: reports that take seconds are computed by a separate process, fetched in parts.

The intake's loop only starts the process and reads its output from an unlinked file. One report at a time is computed
for ordinary users, and one for administrators. An asker's new report replaces the one before.
"""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from rankd.bus.endpoint import Reply, Verb
from rankd.bus.token_bucket import TokenBuckets
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.plugin.interpreter import python_command, python_environment
from rankd.services.intake.report_command import CONFIG, SUBMIT, check_request, command_words
from rankd.wire.codec import decode_strict
from rankd.wire.report import ReportMade, ReportPart, ReportPartRequest, ReportRequest

PART_BYTES = 256 * 2**10
"""A third more in base64; brokers accept 1 MiB."""
MOST_BYTES = 2**30
MOST_NOTES_BYTES = 64 * 2**10
TIME_LIMIT_S = 120.0
KEPT_S = 300.0
"""Seconds from the start after which a report is dropped, even if it was not fetched."""
WAIT_S = 4.0
"""Seconds after which a request for a part of an unfinished report is answered."""
MOST_KEPT = 8
STARTS_PER_S = 1.0
STARTS_BURST_S = 10.0
"""How many reports a user may start per second over a longer time, and after a pause: each starts a process."""
NICE = 10


class Reports:
    """The reports that run or wait to be fetched."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._reports: dict[str, _Report] = {}
        self._starts = TokenBuckets(STARTS_BURST_S)
        self._ending: list[asyncio.subprocess.Process] = []
        self._is_closed = False

    def verbs(self) -> list[Verb]:
        """The endpoints."""
        return [Verb("report.make", self.make), Verb("report.part", self.part)]

    async def close(self) -> None:
        """End the running reports and drop the others; return when no process is left. No report starts any more."""
        self._is_closed = True
        for token in list(self._reports):
            self._drop(token)
        await self._wait()

    async def _wait(self) -> None:
        while self._ending:
            await self._ending.pop().wait()

    async def make(self, asker: Submitter, payload: bytes) -> Reply:
        """Start computing a report."""
        request = decode_strict(payload, ReportRequest)
        check_request(request, asker)
        if self._is_closed:
            raise Unavailable("stopping", "the service is stopping")
        if wait_s := self._starts.spend(asker.user, 1, STARTS_PER_S, time.monotonic()):
            message = f"you have started many reports; {STARTS_PER_S:g} a second may be started, wait {wait_s:.1f} s"
            raise Unavailable("too_many_reports", message, status=429)
        for token, report in list(self._reports.items()):
            if report.asker == asker:
                self._drop(token)
        if any(report.is_running and report.asker.privileged == asker.privileged for report in self._reports.values()):
            raise Unavailable("busy", "a report is being computed for another user; try again in a second")
        if len(self._reports) >= MOST_KEPT:
            self._drop(next(iter(self._reports)))
        report = self._reports[token := secrets.token_hex(16)] = _Report(asker)
        loop = asyncio.get_running_loop()
        try:
            await report.start(request, self._database)
        except OSError as error:
            self._drop(token)
            raise Unavailable("report_failed", f"no process can be started for the report: {error}") from error
        if token not in self._reports:  # it was replaced or closed while its process was started
            self._end(report)
            await self._wait()
        loop.call_later(TIME_LIMIT_S, report.expire)
        loop.call_later(KEPT_S, self._drop, token)
        return ReportMade(report=token)

    async def part(self, asker: Submitter, payload: bytes) -> Reply:
        """Return one part; the last part drops the report."""
        request = decode_strict(payload, ReportPartRequest)
        report = self._reports.get(request.report)
        if report is None or report.asker != asker:
            raise Refused("unknown_report", "there is no such report any more; ask for it again", "report", status=404)
        try:
            answer = await report.part(request.part)
        except RankdError:
            self._drop(request.report)
            raise
        if answer.parts is not None and request.part + 1 >= answer.parts:
            self._drop(request.report)
        return answer

    def _drop(self, token: str) -> None:
        if (report := self._reports.pop(token, None)) is not None:
            self._end(report)

    def _end(self, report: _Report) -> None:
        self._ending = [process for process in self._ending if process.returncode is None]
        if (process := report.close()) is not None:
            self._ending.append(process)


class _Report:
    def __init__(self, asker: Submitter) -> None:
        self.asker = asker
        self._process: asyncio.subprocess.Process | None = None
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._folder = tempfile.TemporaryDirectory(prefix="rankd-report-")
        self._is_late = False

    @property
    def is_running(self) -> bool:
        """Whether it is not finished, even if its process has not started yet."""
        return self._process is None or self._process.returncode is None

    async def start(self, request: ReportRequest, database: str) -> None:
        """Write down the contents of the request, and start the process."""
        folder = Path(self._folder.name)
        if request.files is not None:
            (folder / CONFIG).mkdir()
            for name, text in request.files.items():
                (folder / CONFIG / name).write_text(text)
        if request.submit is not None:
            (folder / SUBMIT).write_text(request.submit)
        words = command_words(request, self.asker, database, str(folder))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
        process = await asyncio.create_subprocess_exec(
            *python_command("rankd", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            cwd=folder,
            env=python_environment(environment),
        )
        self._process = process
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))

    def expire(self) -> None:
        """End the process if it still runs, because its time is over."""
        if self.is_running:
            self._is_late = True
            self._kill()

    def close(self) -> asyncio.subprocess.Process | None:
        """End the process and delete its output; return the process, if there is one."""
        self._kill()
        self._out.close()
        self._err.close()
        self._folder.cleanup()
        return self._process

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def part(self, number: int) -> ReportPart:
        """The part, or an empty answer if the report is not ready.

        Raises:
            Refused, Unavailable: the report was not made; the error says why.
        """
        status = await self._ended()
        if self._out.closed:
            raise Refused("unknown_report", "another report has replaced this one", "report", status=404)
        if status is None:
            return ReportPart()
        if status != 0:
            raise self._failure(status)
        size = os.fstat(self._out.fileno()).st_size
        parts = max(1, -(-size // PART_BYTES))
        if not 0 <= number < parts:
            raise Refused("bad_field", f"there is no part {number}; there are {parts}, from 0", "part")
        data = os.pread(self._out.fileno(), PART_BYTES, number * PART_BYTES)
        return ReportPart(parts=parts, data=data, notes=self._notes() if number == 0 else [])

    async def _ended(self) -> int | None:
        if self._process is None:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                return await self._process.wait()
        return None

    def _notes(self) -> list[str]:
        text = os.pread(self._err.fileno(), MOST_NOTES_BYTES, 0).decode(errors="replace")
        return [line.removeprefix("rankd: ") for line in text.splitlines()]

    def _failure(self, status: int) -> RankdError:
        if self._is_late:
            return Unavailable("report_failed", f"the report took longer than {TIME_LIMIT_S:g} s and was ended")
        message = "\n".join(self._notes())
        if status < 0 or not message or "Traceback" in message:
            return Unavailable("report_failed", f"the process that computes the report ended with {status}")
        if status == 3:
            return Unavailable("report_failed", message)
        return Refused("bad_request" if status == 2 else "report_refused", message)
