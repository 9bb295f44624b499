"""A client's sessions with the processes of a job on all of its nodes, as one: what ``rankd run`` and ``attach`` do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from rankd.bus.connection import Bus
from rankd.client.asker import Asker
from rankd.client.attachment import Attachment, Rest
from rankd.client.input_pump import InputPump
from rankd.client.output_writer import Labels, OutputWriter
from rankd.client.run_status import Interrupts, nodes_of_tasks
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.wire.session import Exited, JobAttach, SessionOpened

INTERRUPT = b"\x03"
OPEN_PAUSE_S = 0.1
PAUSE_GROWTH = 1.5
MOST_PAUSE_S = 2.0
MOST_NOT_STARTED_S = 60.0
"""How long a process of a job waits until rankd has heard of the job's start."""
GONE = "session_gone"
"""The error of a session whose node has nothing more of it."""
OPEN_AT_ONCE = 16


class Ends(NamedTuple):
    """This process's descriptors. ``input`` None: there is none."""

    input: int | None
    output: int
    errors: int


class Parts(NamedTuple):
    """Of a step: how many of the job's nodes, from the first on; and how many tasks. None: all; one on each node."""

    nodes: int | None = None
    tasks: int | None = None


EACH_NODE = Parts()


class Interaction:
    """``labels``: begin each line with the rank of its node. ``on_cancel``: three interrupts came within a second."""

    def __init__(
        self, bus: Bus, who: Asker, ends: Ends, on_cancel: Callable[[], None], *, pty: bool, labels: bool = False
    ) -> None:
        self.rest: Rest | None = None
        """Has in files what a node does not keep for the session any more; None: nobody has it."""
        self.is_within = False
        """Whether this process is one of the job: it runs, also if rankd has not heard of its start yet."""
        self.on_open: Callable[[], None] = lambda: None
        """Called once the first session is granted."""
        self._bus = bus
        self._who = who
        self._ends = ends
        self._on_cancel = on_cancel
        self._pty = pty
        self._labels = labels
        self._interrupts = Interrupts()
        self._attachments: list[Attachment] = []
        self._broken = asyncio.Event()
        self._out = OutputWriter(ends.output, self._on_error)
        self._err = self._out if ends.errors == ends.output else OutputWriter(ends.errors, self._on_error)
        self._labelled: list[tuple[OutputWriter, Labels]] = []

    def _on_error(self, _error: OSError) -> None:
        self._broken.set()

    @property
    def is_broken(self) -> bool:
        """Whether the reader of this process's output has gone."""
        return self._broken.is_set()

    @property
    def missing(self) -> int:
        """How many bytes of the output could not be had any more."""
        return sum(each.missing for each in self._attachments)

    def without_terminal(self) -> None:
        """What is joined has no terminal: interrupts come as signals, not as keys."""
        self._pty = False

    async def run(self, wish: JobAttach, parts: Parts = EACH_NODE) -> list[Exited | None]:
        """Join, and return once everything has arrived and is written: how the processes ended, by node.

        ``parts``: of a step: on how many nodes, and how many tasks. Input goes to the first one.

        Raises:
            RankdError: it can't be joined; the session ended otherwise.
        """
        try:
            async with asyncio.TaskGroup() as group:
                broken = group.create_task(self._broken.wait())
                sessions = group.create_task(self._sessions(wish, parts))
                await asyncio.wait({broken, sessions}, return_when=asyncio.FIRST_COMPLETED)
                broken.cancel()
                if not sessions.done():
                    sessions.cancel()
                    return []
        except ExceptionGroup as errors:
            raise _first_of(errors) from None
        return sessions.result()

    async def _sessions(self, wish: JobAttach, parts: Parts) -> list[Exited | None]:
        first = self._attachment(wish, 0)
        opened = await _opened(first, is_within=self.is_within)
        self.on_open()
        nodes = [opened.node] if wish.node else nodes_of_tasks(opened.nodes[: parts.nodes], parts.tasks)
        ranks = range(1, len(nodes))
        others = [self._attachment(_of_task(wish, nodes, rank, opened.step), rank) for rank in ranks]
        await _all_opened(others)
        tasks: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:
            tasks += [group.create_task(each.keep()) for each in self._attachments]
            if wish.stdin and self._ends.input is not None:
                first.pump = InputPump(self._ends.input, first.send_input, first.end_input, self._look, first.greet)
                first.pump.start()
                tasks.append(group.create_task(first.pump.run()))
            for each in self._attachments:
                await each.over.wait()
            for task in tasks:
                task.cancel()
        for each in self._attachments:
            if self.rest is not None and each.failure is not None and each.failure.code == GONE:
                with suppress(RankdError):  # the failure stays
                    await each.read_to_the_end()
        return await self._finish()

    async def _finish(self) -> list[Exited | None]:
        for writer, labels in self._labelled:
            if rest := labels.rest():
                writer.write(rest, lambda: None)
        await self._out.close()
        if self._err is not self._out:
            await self._err.close()
        for each in self._attachments:
            if each.failure is not None:
                raise each.failure
            await each.leave()
        await self._bus.client.flush()
        return [each.exited.result() if each.exited.done() else None for each in self._attachments]

    def _attachment(self, wish: JobAttach, rank: int) -> Attachment:
        labels = {name: Labels(f"{rank}: ") for name in ("stdout", "stderr")} if self._labels else {}
        writers = {"stdout": self._out, "stderr": self._err}
        self._labelled += [(writers[name], each) for name, each in labels.items()]

        def write(stream: str, part: bytes, then: Callable[[], None]) -> None:
            writer = writers.get(stream, self._out)
            writer.write(labels[stream].labelled(part) if stream in labels else part, then)

        streams: Sequence[str] = ("stdout",) if self._pty else ("stdout", "stderr")
        made = Attachment(self._bus, self._who, wish, write, streams)
        made.rest = self.rest
        self._attachments.append(made)
        return made

    def _look(self, part: bytes) -> None:
        if self._pty and (count := part.count(INTERRUPT)) and self._interrupts.add(time.monotonic(), count):
            self._on_cancel()

    async def interrupt(self, number: int) -> None:
        """Pass an interrupt on; the third within a second cancels, as does one while a step of this job waits."""
        is_waiting = self.is_within and not any(each.is_open for each in self._attachments)
        if self._interrupts.add(time.monotonic()) or is_waiting:
            self._on_cancel()
            return
        await self.signal(number)

    async def signal(self, number: int) -> None:
        """Send a signal to the processes."""
        for each in self._attachments:
            await each.signal(number)

    async def resize(self, rows: int, columns: int) -> None:
        """The terminal has another size."""
        for each in self._attachments:
            await each.resize(rows, columns)

    async def leave(self) -> None:
        """End the sessions, and let the processes run on."""
        for each in self._attachments:
            await each.leave()


def _first_of(errors: ExceptionGroup[Exception]) -> Exception:
    first = errors.exceptions[0]
    return _first_of(first) if isinstance(first, ExceptionGroup) else first


def _of_task(wish: JobAttach, nodes: Sequence[str], rank: int, number: int | None) -> JobAttach:
    """The wish for a further task; ``nodes``: the node of each. It has no input, and knows its ranks by variables.

    ``number``: of the step; None: the intake is of an older version, which does not record it.
    """
    step = wish.step
    if step is not None:
        local = rank - nodes.index(nodes[rank])
        step = msgspec.structs.replace(
            step, env=step.env | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local), "SLURM_GTIDS": str(rank)}
        )
        if number is not None:
            step = msgspec.structs.replace(step, number=number, task=rank)
    return msgspec.structs.replace(wish, node=nodes[rank], stdin=False, step=step)


async def _all_opened(attachments: Sequence[Attachment]) -> None:
    """Open sessions, some at a time."""
    turns = asyncio.Semaphore(OPEN_AT_ONCE)

    async def open_one(attachment: Attachment) -> None:
        async with turns:
            await _opened(attachment)

    async with asyncio.TaskGroup() as group:
        for each in attachments:
            group.create_task(open_one(each))


async def _opened(attachment: Attachment, *, is_within: bool = False) -> SessionOpened:
    """Open a session; again while the node or rankd does not answer. ``is_within``: also until the job has started.

    Raises:
        RankdError: the refusal.
    """
    pause_s, until = OPEN_PAUSE_S, None
    while True:
        try:
            return await attachment.open()
        except Unavailable:
            until = None
        except Refused as error:
            now_s = time.monotonic()
            until = now_s + MOST_NOT_STARTED_S if until is None else until
            if error.code != "not_started" or not is_within or now_s >= until:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * PAUSE_GROWTH, MOST_PAUSE_S)
