"""Prints what a job writes: one stream as it is, or the lines of several nodes with their names."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, TextIO

from rankd.bus.log_stream import LogStream
from rankd.cli.common.screen import print_line
from rankd.client.job_output import JobOutput
from rankd.core.model.job_state import FINAL_STATES
from rankd.wire.session import JobLog, Stream

if TYPE_CHECKING:
    import argparse
    from typing import BinaryIO

    from rankd.bus.connection import Bus
    from rankd.client.asker import Asker

STDOUT: Stream = "stdout"
STDERR: Stream = "stderr"
LONGEST_LINE = 64 * 2**10
"""A longer line of one node is printed in several parts, with lines of others between them."""


class LogPrinter:
    """One command: which job, and how its bytes are printed."""

    def __init__(self, bus: Bus, who: Asker, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._said = ""
        wanted = JobLog(
            id=arguments.job,
            stream=STDERR if arguments.stderr else STDOUT,
            tail_lines=arguments.lines,
            tail_bytes=arguments.bytes,
            follow=arguments.follow,
            node=arguments.node,
            attempt=arguments.attempt,
        )
        self._output = JobOutput(bus, who, wanted, self._say)

    async def run(self) -> int:
        """Print the run that is meant. If the job is followed, print all until it has ended; returns its status."""
        seen = 0
        while (first := await self._output.begun(seen)) is not None:
            await self._copy(first)
            if not self._arguments.follow:
                return 0
            seen = first.known.attempt
            if self._arguments.attempt is not None:
                break
        from rankd.cli.jobs.delivery import status_of

        record = await self._output.record()
        return status_of(record) if record.state in FINAL_STATES else 0

    async def _copy(self, first: LogStream) -> None:
        """Print all streams of the attempt of the first one, side by side."""
        opened, given = first.known, self._arguments
        nodes = [opened.node] if given.node is not None else opened.nodes
        copies = [self._print(first, _Output(sys.stdout, opened.node if len(nodes) > 1 else None))]
        for node in nodes:
            prefix = node if len(nodes) > 1 else None
            if node != opened.node:
                stream = self._output.stream(node=node, attempt=opened.attempt)
                copies.append(self._print(stream, _Output(sys.stdout, prefix)))
            if given.both:
                beside = self._output.stream(stream=STDERR, node=node, attempt=opened.attempt)
                copies.append(self._print(beside, _Output(sys.stderr, prefix), unless=opened.path))
        await asyncio.gather(*copies)

    async def _print(self, stream: LogStream, output: _Output, unless: str | None = None) -> None:
        """Print a stream. ``unless``: not if it is this file, which is printed already."""
        if (await stream.open()).path == unless:
            await stream.leave()
            return
        async for part in self._output.parts_of(stream):
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
