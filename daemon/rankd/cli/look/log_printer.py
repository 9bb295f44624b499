"""Prints what a job writes: one stream as it is, or the lines of several nodes with their names."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, TextIO

from rankd.cli.common.screen import print_line
from rankd.client.log_stream import LogStream
from rankd.client.session import repeat
from rankd.core.errors import Refused
from rankd.core.model.job import FINAL_STATES
from rankd.wire.codec import encode
from rankd.wire.job_record import JobRecord
from rankd.wire.page import JobShow
from rankd.wire.session import JobLog, Stream

if TYPE_CHECKING:
    import argparse
    from typing import BinaryIO

    from rankd.bus.connection import Bus
    from rankd.client.asker import Asker

STDOUT: Stream = "stdout"
STDERR: Stream = "stderr"
LOOK_S = 1.0
PATIENCE_S = 30.0
LONGEST_LINE = 64 * 2**10
"""A longer line of one node is printed in several parts, with lines of others between them."""


class LogPrinter:
    """One command: which job, and how its bytes are printed."""

    def __init__(self, bus: Bus, who: Asker, arguments: argparse.Namespace) -> None:
        self._bus = bus
        self._who = who
        self._arguments = arguments
        self._said = ""

    async def run(self) -> int:
        """Print the attempt that is meant. If the job is followed, print all until it has ended."""
        seen = 0
        while (first := await self._begun(seen)) is not None:
            await self._copy(first)
            if not self._arguments.follow:
                return 0
            seen = first.known.attempt
            if self._arguments.attempt is not None:
                break
        from rankd.cli.jobs.delivery import status_of

        record = await self._record()
        return status_of(record) if record.state in FINAL_STATES else 0

    async def _begun(self, seen: int) -> LogStream | None:
        """The first stream of an attempt after ``seen``, open. None: the job has ended, and there was none."""
        while True:
            record = await self._record() if seen else None
            if record is None or record.state == "running":
                stream = self._stream(STDERR if self._arguments.stderr else STDOUT, self._arguments.node)
                try:
                    if (await stream.open()).attempt > seen:
                        return stream
                    await stream.leave()
                except Refused as refusal:
                    if refusal.code != "not_started" or not self._arguments.follow:
                        raise
                    self._say(refusal.message)
                    record = await self._record()
                    if record.state in FINAL_STATES:
                        raise
            if record is not None and record.state in FINAL_STATES:
                return None
            await asyncio.sleep(LOOK_S)

    async def _record(self) -> JobRecord:
        ask = encode(JobShow(id=self._arguments.job))
        return await repeat(
            lambda: self._bus.request(self._who.subject("job.show"), ask, JobRecord), time.monotonic() + PATIENCE_S
        )

    def _stream(self, stream: Stream, node: str | None, attempt: int | None = None) -> LogStream:
        given = self._arguments
        wanted = JobLog(
            id=given.job,
            stream=stream,
            tail_lines=given.lines,
            tail_bytes=given.bytes,
            follow=given.follow,
            node=node,
            attempt=given.attempt or attempt,
        )
        return LogStream(self._bus, self._who, wanted, patience_s=None if given.follow else PATIENCE_S)

    async def _copy(self, first: LogStream) -> None:
        """Print all streams of the attempt of the first one, side by side."""
        opened, given = first.known, self._arguments
        nodes = [opened.node] if given.node is not None else opened.nodes
        copies = [self._print(first, _Output(sys.stdout, opened.node if len(nodes) > 1 else None))]
        for node in nodes:
            prefix = node if len(nodes) > 1 else None
            if node != opened.node:
                stream = self._stream(STDERR if given.stderr else STDOUT, node, opened.attempt)
                copies.append(self._print(stream, _Output(sys.stdout, prefix)))
            if given.both:
                beside = self._stream(STDERR, node, opened.attempt)
                copies.append(self._print(beside, _Output(sys.stderr, prefix), unless=opened.path))
        await asyncio.gather(*copies)

    async def _print(self, stream: LogStream, output: _Output, unless: str | None = None) -> None:
        """Print a stream. ``unless``: not if it is this file, which is printed already."""
        if (await stream.open()).path == unless:
            await stream.leave()
            return
        async for part in stream.parts():
            await asyncio.to_thread(output.write, part)
        await asyncio.to_thread(output.finish)

    def _say(self, text: str) -> None:
        if text != self._said:
            print_line(f"rankd: {text}", error=True)
        self._said = text


class _Output:
    """Writes bytes as they are or, if a job has several nodes, its lines with the node before each."""

    def __init__(self, stream: TextIO, node: str | None) -> None:
        self._file: BinaryIO = stream.buffer
        self._prefix = b"" if node is None else f"{node}: ".encode()
        self._rest = b""

    def write(self, part: bytes) -> None:
        """Write it, to the last byte or, with several nodes, to the end of its last line. Blocks."""
        if self._prefix:
            lines = (self._rest + part).split(b"\n")
            self._rest = lines.pop()
            if len(self._rest) > LONGEST_LINE:
                lines.append(self._rest)
                self._rest = b""
            part = b"".join(self._prefix + line + b"\n" for line in lines)
        self._file.write(part)
        self._file.flush()

    def finish(self) -> None:
        """Write what has no line break behind it."""
        if self._rest:
            self.write(b"\n")
