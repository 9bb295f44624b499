"""Follows a job while its user watches: says what it waits for, joins it, and finds out how it ended."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rankd.bus.connection import Bus
from rankd.client.asker import Asker
from rankd.client.interaction import GONE, Ends, Interaction, Parts
from rankd.client.run_status import (
    INTERRUPTED,
    NOT_THE_COMMANDS,
    Foreseen,
    Interrupts,
    exit_status_of,
    has_ended,
    how_it_ended,
    waiting_line,
)
from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.wire.encoding import encode
from rankd.wire.forecast_record import JobWhen
from rankd.wire.job_selection import JobCancel, SelectionReply
from rankd.wire.page import JobShow
from rankd.wire.session import REPLAY_BYTES, JobAttach, JobLog, SessionOpened, Stream
from rankd.wire.subject import job_event

if TYPE_CHECKING:
    from nats.aio.msg import Msg

FIRST_POLL_S, POLL_S, POLL_GROWTH = 0.03, 2.0, 1.4
"""Without a word of the broker, the record is looked at again."""
ASK_S = 10.0
AGAIN_S = 0.5
SOON_S, FORECAST_S = 0.5, 10.0
"""The shortest times between two questions for a job's forecast: if its reason has changed, and if it has not."""
LEAVE_S = 5.0
"""How long a cancelled job's end is waited for while nobody answers."""
STEP_GRACE_S = 2.0
"""How long a step that is to end gets until it is killed, and then until it is left."""


class Manner(NamedTuple):
    """How a command is followed. ``stays``: it runs on without this client.

    ``pty``: this process has a terminal of ``rows`` and ``columns`` that may become the job's.

    ``say`` gets the line about a job that waits; an empty one when it starts.
    """

    pty: bool
    has_input: bool
    rows: int
    columns: int
    labels: bool
    stays: bool
    say: Callable[[str], None]
    tell: Callable[[str], None] = lambda _text: None
    """Gets the message of a job that rankd could not start, or ended."""
    on_begin: Callable[[], None] = lambda: None
    """Called when the processes are joined: a terminal is made raw then."""


class RunningJob:
    """A job that this client follows. Signals of this process come by :meth:`on_signal`."""

    def __init__(self, bus: Bus, who: Asker, ends: Ends, manner: Manner) -> None:
        self.id: int | str | None = None
        self._bus = bus
        self._who = who
        self._manner = manner
        self._news = asyncio.Event()
        self._interrupts = Interrupts()
        self._interaction = Interaction(bus, who, ends, self.cancel, pty=manner.pty, labels=manner.labels)
        self._has_terminal = manner.pty
        self._joins = False
        self._cancelling: asyncio.Task[None] | None = None
        self._has_begun = False
        self._status: int | None = None
        self._left = asyncio.Event()
        self._is_step = False
        self._foreseen: JobWhen | None = None
        self._foresee_s: tuple[float, float] | None = None
        self._reason: str | None = None

    async def ask(self, verb: str, payload: bytes, kind: type[Any], until: float | None = None) -> Any:  # noqa: ANN401
        """Ask; again while nobody answers, until that time, or for ever.

        Raises:
            RankdError: the refusal, or the last error.
        """
        while True:
            left_s = ASK_S if until is None else max(AGAIN_S, until - time.monotonic())
            try:
                return await self._bus.request(self._who.subject(verb), payload, kind, timeout_s=min(ASK_S, left_s))
            except Unavailable:
                if until is not None and time.monotonic() + AGAIN_S >= until:
                    raise
            await asyncio.sleep(AGAIN_S)

    async def _listen(self) -> None:
        async def hear(message: Msg) -> None:
            if is_about(self._name, message.data):
                self._news.set()

        await self._bus.client.subscribe(job_event(self._who.user), cb=hear)

    async def follow(self, job: int) -> int:
        """Wait for the start, join, and wait for the end; returns the exit status of this command."""
        self.id = job
        await self._listen()
        return await self._unless_left(self._follow())

    async def _unless_left(self, follow: Coroutine[Any, Any, int]) -> int:
        """The exit status of the job's command, or of this one if it leaves before."""
        following = asyncio.get_running_loop().create_task(follow)
        leaving = asyncio.get_running_loop().create_task(self._left.wait())
        await asyncio.wait({following, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if following.done():
            return following.result()
        following.cancel()
        return NOT_THE_COMMANDS if self._status is None else self._status

    async def _follow(self) -> int:
        record = await self._until_started()
        if record["started_at"] is None:
            return self._status_of(record)
        wish = JobAttach(
            id=self._name,
            stdin=self._manner.has_input or self._manner.pty,
            rows=self._manner.rows if self._manner.pty else None,
            columns=self._manner.columns if self._manner.pty else None,
        )
        self._interaction.rest = self._from_file
        self._begin()
        is_gone = False
        try:
            await self._interaction.run(wish)
        except Refused as error:
            is_gone = error.code == GONE
            if not is_gone and how_it_ended(await self._until_ended()) is None:
                raise
        await self._end_if_unread()
        return self._unless_missing(self._status_of(await self._until_ended()), is_gone=is_gone)

    async def _end_if_unread(self) -> None:
        """End as on SIGTERM if the reader of the output has gone."""
        if self._interaction.is_broken:
            await self.on_end(hung_up=False)

    def _unless_missing(self, status: int, *, is_gone: bool = False) -> int:
        """The status, unless not all of the output was shown: that is never left unsaid."""
        missing = self._interaction.missing
        if self._status is not None or not (is_gone or missing):
            return status
        what = f"{missing} bytes" if missing else "the end"
        self._manner.tell(
            f"{what} of the output of job {self.id} did not arrive here; `rankd logs {self.id}` shows its files"
        )
        return status or NOT_THE_COMMANDS

    async def _from_file(
        self, opened: SessionOpened, stream: str, begin: int, end: int | None
    ) -> AsyncGenerator[bytes, None]:
        """Read the job's file from where its session has stopped, if it has the same bytes at the same place.

        Raises:
            RankdError: it can't be read, or it has other bytes, too.
        """
        from rankd.bus.log_stream import LogStream  # most sessions need none

        record = await self._record()
        paths = [record.get("stdout"), record.get("stderr")]
        if record.get("open_mode") == "append" or paths[0] == paths[1]:
            raise Refused(GONE, f"the file of job {self.id} has other bytes, too", status=409)
        limit = None if end is None else end - begin
        kind: Stream = "stderr" if stream == "stderr" else "stdout"
        wanted = JobLog(
            id=self._name, stream=kind, offset=begin, limit=limit, follow=end is None, node=opened.node,
            attempt=opened.attempt,
        )  # fmt: skip
        async with aclosing(LogStream(self._bus, self._who, wanted).parts()) as parts:
            async for part in parts:
                yield part

    async def attach(self, job: int | str) -> int:
        """Join a job that runs, with the last part of its output; returns its exit status.

        Raises:
            Refused: ``not_running``: it has ended; ``not_interactive``.
        """
        self.id, self._joins = job, True
        await self._listen()
        return await self._unless_left(self._attach())

    async def _attach(self) -> int:
        record = await self._record()
        if has_ended(record["state"]):
            message = f"job {self.id} is {record['state']}; `rankd logs {self.id}` shows what it has printed"
            raise Refused("not_running", message, "id", status=409)
        self._has_terminal = self._manner.pty and bool((record.get("interactive") or {}).get("pty"))
        if not self._has_terminal:
            self._interaction.without_terminal()
        wish = JobAttach(
            id=self._name,
            stdin=self._manner.has_input,
            replay_bytes=REPLAY_BYTES,
            rows=self._manner.rows if self._has_terminal else None,
            columns=self._manner.columns if self._has_terminal else None,
        )
        self._interaction.rest = self._from_file
        self._begin()
        await self._interaction.run(wish)
        await self._end_if_unread()
        return self._unless_missing(self._status_of(await self._until_ended()))

    async def step(self, wish: JobAttach, parts: Parts, *, is_within: bool) -> int:
        """Start a command in a job, and follow it; returns the largest exit status of its tasks.

        ``is_within``: this process is one of the job.
        """
        self._is_step, self._interaction.is_within = True, is_within
        return await self._unless_left(self._step(wish, parts))

    async def _step(self, wish: JobAttach, parts: Parts) -> int:
        self._has_begun = True
        self._interaction.on_open = self._begin  # until then, Ctrl-C ends a terminal's command as any other
        ends = await self._interaction.run(wish, parts)
        if self._interaction.is_broken:
            self.cancel()
            await self._left.wait()
        if self._status is not None:
            return self._status
        found = [exit_status_of("failed", None, end.exit_status, end.signal) for end in ends if end is not None]
        return max(found, default=NOT_THE_COMMANDS)

    def _begin(self) -> None:
        self._has_begun = True
        self._manner.say("")
        if self._has_terminal:
            self._manner.on_begin()

    @property
    def _name(self) -> int | str:
        if self.id is None:
            raise RuntimeError("no job was submitted")
        return self.id

    async def _record(self) -> dict[str, Any]:
        self._news.clear()
        record: dict[str, Any] = await self.ask("job.show", encode(JobShow(id=self._name)), dict)
        return record

    async def _until(
        self, is_reached: Callable[[dict[str, Any]], bool], look: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> dict[str, Any]:
        """Look at the record until it is as wanted: at each news of the broker, and ever less often without any."""
        pause_s = FIRST_POLL_S
        while not is_reached(record := await self._record()):
            await look(record)
            try:
                async with asyncio.timeout(pause_s):
                    await self._news.wait()
                pause_s = FIRST_POLL_S
            except TimeoutError:
                pause_s = min(pause_s * POLL_GROWTH, POLL_S)
        return record

    async def _until_started(self) -> dict[str, Any]:
        async def look(record: dict[str, Any]) -> None:
            if record["state"] == "pending":
                await self._foresee(record.get("reason"))
            foreseen, rank, of = None, None, None
            if (found := self._foreseen) is not None:
                rank, of = found.rank, found.of
                if found.early is not None and found.made_at is not None:
                    foreseen = Foreseen(found.early, found.late, found.made_at + (found.age_s or 0.0))
            self._manner.say(waiting_line(record | {"rank": rank}, of, foreseen))

        return await self._until(lambda record: record["state"] == "running" or has_ended(record["state"]), look)

    async def _foresee(self, reason: str | None) -> None:
        """Ask for the rank and the start, at times. Not at the first look: most jobs start at once.

        What is shown is recorded by the intake.
        """
        now_s = time.monotonic()
        if self._foresee_s is None:
            self._reason, self._foresee_s = reason, (now_s + SOON_S, now_s + SOON_S)
        if now_s < self._foresee_s[reason == self._reason]:
            return
        self._reason, self._foresee_s = reason, (now_s + SOON_S, now_s + FORECAST_S)
        with suppress(RankdError):  # the line goes without
            self._foreseen = await self._bus.request(
                self._who.subject("job.when"), encode(JobShow(id=self._name)), JobWhen, timeout_s=ASK_S
            )

    async def _until_ended(self) -> dict[str, Any]:
        async def look(_record: dict[str, Any]) -> None:
            return

        return await self._until(lambda record: has_ended(record["state"]), look)

    def _status_of(self, record: dict[str, Any]) -> int:
        if self._status is not None:
            return self._status
        if message := how_it_ended(record):
            self._manner.say("")
            self._manner.tell(message)
        return exit_status_of(record["state"], record.get("cause"), record["exit_status"], record["signal"])

    def cancel(self, status: int = NOT_THE_COMMANDS, number: int = signal.SIGTERM) -> None:
        """Cancel the job, or end the step, first by this signal; this command then ends with the status."""
        self._status = status
        if self._cancelling is not None:
            return
        if self._is_step:
            self._cancelling = asyncio.get_running_loop().create_task(self._end_step(number))
        elif self.id is None:
            self._left.set()
        else:
            self._cancelling = asyncio.get_running_loop().create_task(self._cancel())

    async def _end_step(self, number: int) -> None:
        """End the processes of a step; whatever becomes of them, this command ends."""
        for each in (number, signal.SIGKILL):
            await self._interaction.signal(each)
            await asyncio.sleep(STEP_GRACE_S)
        await self._interaction.leave()
        self._left.set()

    async def _cancel(self) -> None:
        try:
            until = time.monotonic() + LEAVE_S
            await self.ask("job.cancel", encode(JobCancel(id=self._name)), SelectionReply, until)
        except RankdError:
            self._left.set()

    async def on_interrupt(self, number: int) -> None:
        """An interrupt: a job that waits is cancelled; one that runs gets it; the third within a second cancels.

        A job that is not joined yet is left alone.
        """
        if self._has_begun:
            await self._interaction.interrupt(number)
        elif self._joins:
            self._status = INTERRUPTED
            self._left.set()
        else:
            self.cancel(INTERRUPTED)

    async def on_end(self, *, hung_up: bool) -> None:
        """This process is to end: the job is cancelled, unless it may run on. ``hung_up``: the terminal has gone."""
        if not self._manner.stays:
            self.cancel(number=signal.SIGHUP if hung_up else signal.SIGTERM)
            return
        await self._interaction.leave()
        self._left.set()
        if not hung_up:
            self._manner.tell(f"left job {self.id}; `rankd attach {self.id}` joins it")

    async def on_resize(self, rows: int, columns: int) -> None:
        """The terminal has another size."""
        if self._has_terminal:
            await self._interaction.resize(rows, columns)


def is_about(job: int | str, published: bytes) -> bool:
    """Whether events of a user are about this job. Those of others cost no look at its record.

    >>> is_about(17, b'{"events":[{"id":1,"job":171}]}'), is_about(17, b'{"events":[{"id":1,"job":17}]}')
    (False, True)
    """
    try:
        return isinstance(job, str) or any(event["job"] == job for event in msgspec.json.decode(published)["events"])
    except (ValueError, TypeError, KeyError):  # of another version
        return True
