"""One session of a client with the processes of a job: between the broker and the relay that holds their streams.

Nothing is kept here that a restart would lose. The relay counts output and input; the client says how far it is. So
either connection may break at any moment.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg

from rankd.core.errors import RankdError, Refused
from rankd.core.model.job_environment import exit_of
from rankd.core.session.step import LOST, NOT_STARTED
from rankd.services.agent.session import STATUS_HEADER, TEXT_HEADER, Lifetime, Send
from rankd.services.agent.step_report import Recorded
from rankd.services.keeper import relay_frame as kinds
from rankd.services.keeper.link import KeeperLink
from rankd.services.keeper.message import SignalJob, StartStep, StepHappened
from rankd.services.keeper.proc import Session as Streams
from rankd.services.keeper.relay_frame import BadFrame, Frames, frame
from rankd.services.keeper.relay_process import connected
from rankd.wire.answer import ErrorBody
from rankd.wire.codec import UNREADABLE, encode
from rankd.wire.session import (
    COMMAND_NOT_FOUND,
    CONTROL,
    END,
    FIRST,
    INPUT_MESSAGE_BYTES,
    KIND,
    NOT_EXECUTABLE,
    OFFSET,
    SIZE,
    STATE,
    STREAM,
    Again,
    Alive,
    AttachWish,
    Consumed,
    Exited,
    FromClient,
    FromNode,
    Grant,
    InputEnd,
    InputTaken,
    Leave,
    SendSignal,
    WindowSize,
)

PART = 256 * 1024
LOOK_S = 1.0
PAUSE_S = 0.05
MOST_ABSENT_S = 5.0
"""How long a relay may not be there: it starts just now, or has ended."""
NO_RELAY = (ConnectionRefusedError, FileNotFoundError)
"""The errors of a relay that has ended, if it was there before."""
MOST_STARTING_S = 60.0
"""How long the keeper may take to say that it has started a step: many that start at once wait for each other."""
SIGNAL_S = 0.05
"""Between two signals of a client: each costs the keeper a look at all processes of the job."""
ENDED = "ended"
_NOT_STARTED: Mapping[int | None, str] = {127: COMMAND_NOT_FOUND, 126: NOT_EXECUTABLE}
"""The codes of errors by the status that a shell gives to a command that it can't start."""
STREAMS = {kinds.OUTPUT: "stdout", kinds.ERRORS: "stderr"}
READ = {"stdout": kinds.OUTPUT_READ, "stderr": kinds.ERRORS_READ}

_from_client = msgspec.json.Decoder(FromClient)


class Node(NamedTuple):
    """What a session uses of its node. ``heard``: a client of this allocation is there. ``over``: a task has ended."""

    state: Path
    link: KeeperLink
    heard: Callable[[int], None]
    over: Callable[[Recorded, str], None]


class AttachSession:
    """See :class:`rankd.services.agent.session.Session`. ``wish``: that of the grant."""

    def __init__(self, grant: Grant, wish: AttachWish, node: Node, send: Send, accepts: Callable[[str], bool]) -> None:
        self.on_close: Callable[[], None] = lambda: None
        self.allocation = grant.allocation
        self.name = str(grant.allocation) if wish.step is None else f"{grant.allocation}-{grant.session}"
        """That of the relay's socket, and of the step."""
        self._of_input = grant.session if wish.replay_bytes else self.name
        """Whose input it is: the relay counts that of each from 0. Who has started the job keeps its name over agents
        of older versions."""
        self._wish = wish
        self._node = node
        self._publish = send
        self._accepts = accepts
        self._life = Lifetime(grant, self._now_s())
        self._offsets = {stream: offset for stream, offset in wish.offsets.items() if stream in READ}
        self._sent: dict[str, int] = {}
        self._lost = False
        self._reply: str | None = None
        self._greeted = asyncio.Event()
        self._relay: socket.socket | None = None
        self._writing = asyncio.Lock()
        self._failure: RankdError | None = None
        self._is_over = False
        self._begins = wish.step is not None and wish.step.begins
        self._starts = False
        """Whether the keeper was asked to start the step, and has not answered."""
        self._exited: Exited | None = None
        self._ends: dict[str, int] = {}
        self._firsts: dict[str, int] = {}
        """Of each stream, the oldest byte that the relay kept when it last began to send."""
        self._is_terminal = False
        node.heard(grant.allocation)

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()

    def renew(self, grant: Grant) -> None:
        """See :class:`.Session`."""
        self._life.renew(grant, self._now_s())
        self._node.heard(self.allocation)
        if isinstance(grant.wish, AttachWish):
            for stream, offset in grant.wish.offsets.items():
                if stream in READ:
                    self._offsets[stream] = max(self._offsets.get(stream, 0), offset)
            self._lost = self._lost or grant.wish.again

    def excuse(self) -> None:
        """Nothing can be heard of any client at present. What its process writes still waits for it."""
        self._life.excuse(self._now_s())

    def replace(self) -> None:
        """Another client has joined: this one gets no more."""
        message = "another client has joined this job; `rankd attach` joins again"
        self._fail(Refused("taken_over", message, status=409))

    def on_step(self, step: StepHappened) -> None:
        """The keeper says what happened to the step that this session has started."""
        self._starts = False
        if step.kind == "ended" and step.message is not None:
            code = _NOT_STARTED.get(step.exit_status, "step_failed")
            self._fail(Refused(code, step.message, status=409 if step.exit_status is None else 400))

    @property
    def recorded(self) -> Recorded | None:
        """The task of a step that this session is with, if it is recorded."""
        wish = self._wish
        return None if wish.number is None else Recorded(self.allocation, wish.number, wish.task)

    def _is_over_as(self, cause: str) -> None:
        if (task := self.recorded) is not None:
            self._node.over(task, cause)

    def _fail(self, error: RankdError) -> None:
        self._failure = self._failure or error
        self._disconnect()

    def _disconnect(self) -> None:
        """Wake up the loop that reads from the relay."""
        if self._relay is not None:
            with suppress(OSError):
                self._relay.shutdown(socket.SHUT_RDWR)

    async def on_message(self, message: Msg) -> None:
        """See :class:`.Session`."""
        self._life.hear(self._now_s())
        self._node.heard(self.allocation)
        headers = message.headers or {}
        with suppress(*UNREADABLE):
            if OFFSET in headers:
                await self._put_input(int(headers[OFFSET]), message.data)
            else:
                await self._carry_out(_from_client.decode(message.data), message.reply)

    async def _carry_out(self, said: FromClient, reply: str) -> None:
        match said:
            case Alive():
                await self._on_alive(reply)
            case Consumed(stream=stream, offset=offset) if stream in READ:
                self._offsets[stream] = max(self._offsets.get(stream, 0), offset)
                await self._tell(frame(READ[stream], offset))
            case Again(stream=stream, offset=offset) if stream in READ:
                self._offsets[stream] = offset
                await self._resume()
            case WindowSize(columns=columns, rows=rows):
                await self._tell(frame(kinds.SIZE, 0, kinds.SIZES.pack(rows, columns)))
            case SendSignal(number=number):
                step = None if self._wish.step is None else self.name
                self._node.link.ask(SignalJob(allocation=self.allocation, number=number, step=step))
                await asyncio.sleep(SIGNAL_S)
            case InputEnd(offset=offset):
                await self._tell(frame(kinds.INPUT_ENDS, offset))
            case Leave():
                await self._leave()

    async def _leave(self) -> None:
        """The client has gone on purpose."""
        if self._exited is not None:
            await self._tell(frame(kinds.DONE))
        self._is_over = True
        self._disconnect()

    async def _put_input(self, offset: int, part: bytes) -> None:
        if 0 <= offset < 2**63 and len(part) <= INPUT_MESSAGE_BYTES:
            await self._tell(frame(kinds.INPUT, offset, part))

    async def _on_alive(self, reply: str) -> None:
        if not self._accepts(reply):
            return
        self._reply = reply
        self._greeted.set()
        if self._lost:
            await self._resume()
        for stream, sent in list(self._sent.items()):
            await self._put(b"", self._headers(stream, sent))
        if not self._lost:  # the client does not know that this agent's connection, and with it the end, was lost
            await self._repeat_end()

    async def _resume(self) -> None:
        """Let the relay send from where the client is."""
        self._lost, self._ends = False, {}  # the relay says the end again after the bytes
        first = kinds.LAST_PART if self._wish.replay_bytes else 0
        offsets = [self._offsets.get(stream, first) for stream in ("stdout", "stderr")]
        await self._tell(frame(kinds.RESUME, 0, kinds.OFFSETS.pack(*offsets) + self._of_input.encode()))

    async def _tell(self, message: bytes) -> None:
        """Send to the relay. Without one it is lost: the client repeats what was not answered."""
        async with self._writing:
            if self._relay is not None:
                with suppress(OSError):
                    await asyncio.get_running_loop().sock_sendall(self._relay, message)

    async def run(self) -> None:
        """See :class:`.Session`."""
        absent_s, is_known = 0.0, False
        while not self._is_over and self._failure is None and not self._life.is_over(self._now_s()):
            if not await self._is_greeted():
                continue
            try:
                with connected(self._node.state, self.name) as relay:
                    absent_s, is_known, self._begins = 0.0, True, False
                    await self._serve(relay)
            except OSError as error:
                self._begin_step()
                absent_s += PAUSE_S
                is_gone = is_known and self._wish.step is None and isinstance(error, NO_RELAY)
                if is_gone or absent_s > (MOST_STARTING_S if self._starts else MOST_ABSENT_S):
                    self._failure = Refused("session_gone", _GONE, "id", status=404)
                    if self._wish.step is not None and not self._wish.step.begins:
                        self._is_over_as(LOST)  # an earlier agent has started it, or was to
                await asyncio.sleep(PAUSE_S)
        if self._failure is not None:
            await self._say_failure(self._failure)

    async def _is_greeted(self) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                return await self._greeted.wait()
        return False

    def _begin_step(self) -> None:
        """Start the step, once."""
        step, self._begins = (self._wish.step if self._begins else None), False
        if step is not None:
            wish, self._starts = self._wish, True
            streams = Streams(
                name=self.name, pty=step.pty, input=wish.stdin, rows=wish.rows or 24, columns=wish.columns or 80
            )
            self._node.link.ask(
                StartStep(
                    allocation=self.allocation,
                    step=self.name,
                    command=step.command,
                    session=streams,
                    environment=step.env,
                    cwd=step.cwd,
                    number=wish.number,
                    task=wish.task,
                )
            )

    async def _serve(self, relay: socket.socket) -> None:
        """Pass on what the relay sends until either side has gone."""
        self._relay, frames = relay, Frames()
        try:
            await self._resume()
            while not self._is_over and not self._life.is_over(self._now_s()):
                try:
                    async with asyncio.timeout(LOOK_S):
                        part = await asyncio.get_running_loop().sock_recv(relay, PART)
                except TimeoutError:
                    continue
                if not part:
                    await asyncio.sleep(0 if self._exited else PAUSE_S)
                    self._is_over = self._is_over or self._exited is not None
                    return
                for kind, offset, payload in frames.feed(part):
                    await self._pass_on(kind, offset, payload)
        except BadFrame as error:
            self._failure = Refused("session_gone", f"the job's relay is broken: {error}", status=404)
        finally:
            self._relay = None

    async def _pass_on(self, kind: bytes, offset: int, payload: bytes) -> None:
        if kind in STREAMS:
            stream = STREAMS[kind]
            if self._lost:
                return
            first = {FIRST: str(offset)} if 0 < offset == self._firsts.get(stream) else {}
            if await self._put(payload, self._headers(stream, offset) | first):
                self._sent[stream] = offset + len(payload)
            else:
                self._lost = True
        elif kind == kinds.HELLO:
            output, _, errors, _, is_terminal = kinds.PLACES.unpack(payload)
            self._firsts, self._is_terminal = {"stdout": output, "stderr": errors}, bool(is_terminal)
        elif kind == kinds.INPUT_TAKEN:
            await self._say(InputTaken(offset=offset, end=payload == b"."))
        elif kind == kinds.END:
            await self._say_end(*kinds.ENDED.unpack(payload))

    async def _say_end(self, status: int, output: int, errors: int) -> None:
        exit_status, number = exit_of(status)
        self._exited = Exited(exit_status=exit_status, signal=number)
        self._ends = {"stdout": output} | ({} if self._is_terminal else {"stderr": errors})
        self._sent |= self._ends  # all before was sent, here or by an earlier agent
        await self._repeat_end()

    async def _repeat_end(self) -> None:
        """Say how the process ended, and where its streams end, if it has ended. Not while bytes are sent again."""
        if self._exited is None:
            return
        await self._say(self._exited)
        for stream, end in self._ends.items():
            if self._sent.get(stream) != end:
                continue
            if not await self._put(b"", self._headers(stream, end) | {END: "true", STATE: ENDED}):
                self._lost = True

    def _headers(self, stream: str, offset: int) -> dict[str, str]:
        return {STREAM: stream, OFFSET: str(offset), SIZE: str(max(offset, self._sent.get(stream, 0)))}

    async def _say(self, message: FromNode) -> None:
        await self._put(encode(message), {KIND: CONTROL})

    async def _put(self, data: bytes, headers: Mapping[str, str]) -> bool:
        return self._reply is not None and await self._publish(self._reply, data, headers)

    async def _say_failure(self, error: RankdError) -> None:
        body = ErrorBody(code=error.code, message=error.message, field=error.field)
        text = " ".join(error.message.split())[:500]
        await self._put(encode(body), {STATUS_HEADER: str(error.status), TEXT_HEADER: text})

    async def close(self) -> None:
        """See :class:`.Session`. A step that its client has not begun will not begin."""
        if self._begins:
            self._is_over_as(NOT_STARTED)
        self.on_close()


_GONE = (
    "the job has no session on this node any more; `rankd logs JOB` shows its output, `rankd shell JOB` starts a shell"
    " in it"
)
