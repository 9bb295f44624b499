"""A client's part of a session with the processes of a job on one node: output, input, signals, and the end.

The intake grants the session (``job.attach``); bytes then travel between this client and the node's agent. All offsets
count from the beginning of their stream, so a lost connection loses nothing: the client asks again from where it is.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress

import msgspec
from nats.aio.msg import Msg

from rankd.bus.connection import LOST, Bus
from rankd.bus.refusal import raise_if_refused
from rankd.client.asker import Asker
from rankd.client.input_pump import InputPump
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.wire.encoding import encode
from rankd.wire.session import (
    CONSUMED_BYTES,
    CONTROL,
    END,
    FIRST,
    KIND,
    OFFSET,
    RENEW_S,
    STEP_ID,
    STREAM,
    Again,
    Alive,
    Consumed,
    Exited,
    FromClient,
    FromNode,
    InputEnd,
    InputTaken,
    JobAttach,
    Leave,
    SendSignal,
    SessionOpened,
    WindowSize,
)
from rankd.wire.subject import session_in, session_out

ASK_S = 5.0
PAUSE_S = 0.2
AGAIN_S = 1.0
"""Missing bytes are asked for again after this time."""
COMPARED_BYTES = 64
"""The job's file must have these last bytes that were shown, at their place. Then the client reads on in it."""
LEFT_OUT = re.compile(rb"\n\[rankd: (\d{1,18}) bytes are missing here: the disk was full\]\n")
"""What a relay writes into a job's file in place of what it had no room for."""
LONGEST_LEFT_OUT = 80

UNKNOWN_FIELD = "unknown_field"
OF_STEP = frozenset({"step.number", "step.task"})
"""Fields that intakes of older versions refuse. During an upgrade, such a one may take over from a newer one."""

Write = Callable[[str, bytes, Callable[[], None]], None]
"""Writes bytes of a stream, then calls back in the loop."""
Rest = Callable[[SessionOpened, str, int, int | None], AsyncGenerator[bytes, None]]
"""Bytes of a stream from the job's file on that node, from an offset to another one; None: to the job's end."""


class Attachment:
    """One session. ``write`` gets the bytes of each stream in order, each once.

    ``streams``: those that are wanted from their beginning; with ``replay_bytes`` they begin where the node says.

    ``rest``: has what the node keeps only in files, because the job ran on without its client, or has ended long ago.
    """

    def __init__(self, bus: Bus, who: Asker, wish: JobAttach, write: Write, streams: Sequence[str]) -> None:
        self.exited: asyncio.Future[Exited] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        """Set once both streams have ended and their bytes are written, or the session has failed."""
        self.failure: RankdError | None = None
        self.node: str | None = wish.node
        self.nodes: list[str] = []
        self.pump: InputPump | None = None
        self.rest: Rest | None = None
        self.missing = 0
        """How many bytes could not be had any more."""
        self._bus = bus
        self._who = who
        self._session = secrets.token_hex(16)
        self._wish = msgspec.structs.replace(wish, session=self._session)
        self._write = write
        self._next = {} if wish.replay_bytes else dict.fromkeys(streams, 0)
        self._written = dict(self._next)
        self._told: dict[str, int] = {}
        self._ended: set[str] = set()
        self._asked_again: dict[str, tuple[int, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_unheard = asyncio.Event()
        self._opened: SessionOpened | None = None
        self._fills: dict[str, asyncio.Task[None]] = {}
        self._last: dict[str, bytes] = {}
        """Of each stream, the bytes before its next one, as far as they are known."""
        self._reads_files = False
        self._listens = False
        self._names_step = True

    @property
    def is_open(self) -> bool:
        """Whether the session was granted."""
        return self._opened is not None

    async def open(self) -> SessionOpened:
        """Listen, then ask. After an error it may be called again.

        Raises:
            Refused, Unavailable: the intake's or the node's reason; ``not_started`` while the job waits.
        """
        if not self._listens:
            await self._bus.client.subscribe(session_out(self._who.user, None, self._session), cb=self._on_message)
            self._bus.after_reconnect.append(self._on_reconnect)
            self._listens = True
        opened = await self._ask(again=False)
        await self.greet()
        return opened

    async def greet(self) -> None:
        """Tell the agent that this client is there, and where it listens."""
        await self._publish(encode(Alive()), None, session_out(self._who.user, self.node, self._session))

    async def _ask(self, *, again: bool) -> SessionOpened:
        """Ask the intake. One of an older version refuses the request as a whole, so nothing runs twice."""
        try:
            opened = await self._request(again=again)
        except Refused as error:
            if error.code != UNKNOWN_FIELD or error.field not in OF_STEP:
                raise
            self._wish, self._names_step = _without_number(self._wish), False
            opened = await self._request(again=again)
        self.node, self.nodes, self._opened = opened.node, opened.nodes, opened
        self._note_step(opened.step)
        return opened

    async def _request(self, *, again: bool) -> SessionOpened:
        offsets = dict(self._written)
        wish = msgspec.structs.replace(self._wish, offsets=offsets, again=again, node=self.node)
        if self._opened is not None and wish.step is not None:
            wish = msgspec.structs.replace(wish, step=msgspec.structs.replace(wish.step, begins=False))
        return await self._bus.request(self._who.subject("job.attach"), encode(wish), SessionOpened, timeout_s=ASK_S)

    def _note_step(self, number: int | None) -> None:
        """Name the step from now on by the number under which it is recorded, unless an older intake has refused it."""
        step = self._wish.step
        if step is not None and number is not None and self._names_step:
            self._wish = msgspec.structs.replace(self._wish, step=msgspec.structs.replace(step, number=number))

    async def keep(self) -> None:
        """Renew the session until it is over. An intake that is away disturbs nothing."""
        while not self.over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(RENEW_S / 2):
                    await self._is_unheard.wait()
            if self._is_unheard.is_set():
                self._is_unheard.clear()
                await asyncio.sleep(PAUSE_S)
            await self.greet()
            try:
                await self._ask(again=False)
            except Unavailable:
                continue
            except Refused as error:
                self._fail(error)

    async def _on_reconnect(self) -> None:
        with suppress(RankdError):
            await self._ask(again=True)
        await self.greet()
        if self.pump is not None:
            self.pump.again()

    async def _on_message(self, message: Msg) -> None:
        headers = message.headers or {}
        try:
            raise_if_refused(message)
            if headers.get(KIND) == CONTROL:
                self._on_control(msgspec.json.decode(message.data, type=FromNode))
            elif STREAM in headers:
                await self._on_bytes(headers, message.data)
            else:  # the broker says that no agent listens now: ask the intake soon
                self._is_unheard.set()
        except RankdError as error:
            self._fail(error)
        except (msgspec.MsgspecError, ValueError, KeyError) as error:
            self._fail(Unavailable("unreadable_answer", f"what the node's agent sends can't be read: {error}"))

    def _on_control(self, told: FromNode) -> None:
        if isinstance(told, InputTaken) and self.pump is not None:
            self.pump.taken(told.offset, end=told.end)
        elif isinstance(told, Exited) and not self.exited.done():
            self.exited.set_result(told)
            self._look_at_end()

    async def _on_bytes(self, headers: dict[str, str], part: bytes) -> None:
        stream, offset = headers[STREAM], int(headers[OFFSET])
        expected = self._next.setdefault(stream, offset)
        self._written.setdefault(stream, offset)
        if stream in self._fills or self._reads_files:
            return
        if offset > expected and headers.get(FIRST) == headers[OFFSET]:
            self._fills[stream] = self._begin(self._fill(stream, offset))
            return
        if offset > expected:  # something was lost with a connection
            now_s = asyncio.get_running_loop().time()
            asked_for, asked_s = self._asked_again.get(stream, (-1, 0.0))
            if asked_for != expected or now_s - asked_s >= AGAIN_S:  # what was asked for may be lost as well
                self._asked_again[stream] = (expected, now_s)
                await self.send(Again(stream=stream, offset=expected))
            return
        fresh = part[expected - offset :]
        if fresh:
            self._asked_again.pop(stream, None)
            self._show(stream, fresh, lambda: None)
        if headers.get(END) == "true":
            self._ended.add(stream)
            self._look_at_end()

    def _show(self, stream: str, part: bytes, then: Callable[[], None]) -> None:
        """Write the next bytes of a stream."""
        self._next[stream] = end = self._next[stream] + len(part)
        self._last[stream] = (self._last.get(stream, b"") + part[-COMPARED_BYTES:])[-COMPARED_BYTES:]

        def on_written() -> None:
            self._on_written(stream, end)
            then()

        self._write(stream, part, on_written)

    async def _fill(self, stream: str, end: int) -> None:
        """Take from the job's file what its node does not keep any more, then ask for what follows."""
        with suppress(RankdError):
            await self._read_file(stream, end)
        if (lacks := end - self._next[stream]) > 0:
            self.missing += lacks
            self._next[stream] = self._written[stream] = end
            self._last.pop(stream, None)
        self._fills.pop(stream, None)
        await self.send(Again(stream=stream, offset=end))

    async def read_to_the_end(self) -> None:
        """The session is gone: take all that has not come from the job's files, until the job has ended.

        Raises:
            RankdError: it can't be had.
        """
        if not self._next and self.failure is not None:
            raise self.failure
        self._reads_files = True
        fills = list(self._fills.values())
        for fill in fills:
            fill.cancel()
        await asyncio.gather(*fills, return_exceptions=True)
        for stream in self._next:
            await self._read_file(stream, None)
        self.failure = None

    async def _read_file(self, stream: str, end: int | None) -> None:
        """Write bytes of the job's file, as fast as they are taken, if it has before them what was shown last.

        It has not if the job has emptied it, or if its disk was full: then its offsets are not those of the stream.
        If the disk was full later, what was left out is missing; with an ``end``, also all behind.

        Raises:
            RankdError: it can't be read, or is not as the stream was.
        """
        if self.rest is None or self._opened is None:
            raise self.failure or Refused("session_gone", "what the session does not have is in no file", status=404)
        place, last = self._next[stream], self._last.get(stream, b"")
        before = min(place, max(len(last), 1))
        compared = looked_at = b""
        async with aclosing(self.rest(self._opened, stream, place - before, end)) as parts:
            async for part in parts:
                fresh = part[before - len(compared) :]
                compared += part[: before - len(compared)]
                if len(compared) == before and not compared.endswith(last):
                    break
                looked_at += fresh
                if found := list(LEFT_OUT.finditer(looked_at)):
                    if end is not None:
                        break
                    self.missing += sum(int(each[1]) for each in found)
                looked_at = looked_at[found[-1].end() if found else 0 :][-LONGEST_LEFT_OUT:]
                if fresh:
                    assert self._next[stream] == place, "nobody else writes this stream"  # noqa: S101
                    place += len(fresh)
                    written = asyncio.Event()
                    self._show(stream, fresh, written.set)
                    await written.wait()
        if len(compared) < before or not compared.endswith(last):
            raise Refused("session_gone", "the job's file does not have what the session has shown", status=409)

    def _on_written(self, stream: str, end: int) -> None:
        self._written[stream] = max(self._written[stream], end)
        if end - self._told.get(stream, 0) >= CONSUMED_BYTES:
            self._told[stream] = end
            self._begin(self.send(Consumed(stream=stream, offset=end)))
        self._look_at_end()

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _look_at_end(self) -> None:
        """The status of the process comes before the ends of its streams, and comes again with them if it was lost."""
        has_ended = self.exited.done() and self._ended and self._ended >= self._next.keys()
        if has_ended and self._next == self._written:
            self.over.set()

    def _fail(self, error: RankdError) -> None:
        self.failure = self.failure or error
        self.over.set()

    async def send(self, message: FromClient) -> None:
        """Send a control message. It is lost while the broker is away."""
        await self._publish(encode(message), None)

    async def resize(self, rows: int, columns: int) -> None:
        """The terminal has another size."""
        self._wish = msgspec.structs.replace(self._wish, rows=rows, columns=columns)
        await self.send(WindowSize(columns=columns, rows=rows))

    async def signal(self, number: int) -> None:
        """Send a signal to the processes."""
        await self.send(SendSignal(number=number))

    async def send_input(self, offset: int, part: bytes) -> None:
        """Send input."""
        await self._publish(part, {OFFSET: str(offset)})

    async def end_input(self, offset: int) -> None:
        """The input has ended."""
        await self.send(InputEnd(offset=offset))

    async def leave(self) -> None:
        """End the session on purpose, once everything was consumed."""
        for stream, end in self._written.items():
            await self.send(Consumed(stream=stream, offset=end))
        await self.send(Leave())
        self.over.set()

    async def _publish(self, payload: bytes, headers: dict[str, str] | None, reply: str = "") -> None:
        if self.node is None:
            return
        subject = session_in(self._who.user, self.node, self._session)
        with suppress(*LOST):
            await self._bus.client.publish(subject, payload, reply=reply, headers=headers)


def _without_number(wish: JobAttach) -> JobAttach:
    """The wish as older intakes know it. The number of its step is only in its environment."""
    step = wish.step
    if step is None or step.number is None:
        return wish
    env = step.env | {STEP_ID: str(step.number)}
    return msgspec.structs.replace(wish, step=msgspec.structs.replace(step, env=env, number=None, task=0))
