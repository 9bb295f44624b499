"""What a job writes, over the bus: one run of it, or all of them until it has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec

from rankd.bus.connection import Bus
from rankd.bus.log_stream import LogStream
from rankd.client.asker import Asker
from rankd.client.session import repeat
from rankd.core.errors import Refused
from rankd.core.model.job_state import FINAL_STATES
from rankd.wire.encoding import encode
from rankd.wire.job_record import JobRecord
from rankd.wire.page import JobShow
from rankd.wire.session import LOG_EMPTIED, JobLog

LOOK_S = 1.0
PATIENCE_S = 30.0


class JobOutput:
    """``wanted``: what to read; with ``follow``, a job that has not started is waited for. ``say`` is told why."""

    def __init__(self, bus: Bus, who: Asker, wanted: JobLog, say: Callable[[str], None] = lambda _text: None) -> None:
        self._bus = bus
        self._who = who
        self._wanted = wanted
        self._say = say

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """The bytes of the run that is meant or, if the job is followed, of all runs until it has ended.

        Raises:
            RankdError: it can't be read.
        """
        seen = 0
        while (stream := await self.begun(seen)) is not None:
            async for part in self.parts_of(stream):
                yield part
            if not self._wanted.follow or self._wanted.attempt is not None:
                return
            seen = stream.known.attempt

    async def parts_of(self, stream: LogStream) -> AsyncGenerator[bytes, None]:
        """The bytes of a stream. If the job empties a file that is followed, it goes on from the new beginning.

        Raises:
            RankdError: it can't be read.
        """
        is_anew = False
        while True:
            try:
                async with aclosing(stream.parts()) as parts:
                    async for part in parts:
                        yield part
            except Refused as error:
                if is_anew and error.code == "log_gone" and self._wanted.attempt is None:
                    return  # a later run has emptied it
                if error.code != LOG_EMPTIED or not self._wanted.follow:
                    raise
            else:
                return
            self._say(f"the job has emptied its file {stream.known.path}; going on from its new beginning")
            stream, is_anew = stream.anew(), True

    async def begun(self, seen: int) -> LogStream | None:
        """The stream of a run after ``seen``, open. None: the job has ended, and there was no further run.

        A job that is followed may also end without any run, for example if it is cancelled.

        Raises:
            RankdError: it can't be read.
        """
        is_over = False
        while True:
            record = await self.record() if seen else None
            if record is None or record.state == "running":
                stream = self.stream()
                try:
                    if (await stream.open()).attempt > seen:
                        return stream
                    await stream.leave()
                except Refused as refusal:
                    await stream.leave()
                    if refusal.code != "not_started" or not self._wanted.follow:
                        raise
                    self._say(refusal.message)
                    if is_over:
                        return None
                    record = await self.record()
                    if record.state in FINAL_STATES:  # ask again: it may have run after this refusal
                        is_over = True
                        continue
            if record is not None and record.state in FINAL_STATES:
                return None
            await asyncio.sleep(LOOK_S)

    def stream(self, **fields: object) -> LogStream:
        """A stream with these other fields of the request."""
        wanted = msgspec.structs.replace(self._wanted, **fields)
        return LogStream(self._bus, self._who, wanted, patience_s=None if wanted.follow else PATIENCE_S)

    async def record(self) -> JobRecord:
        """The job's record.

        Raises:
            RankdError: there is no such job; rankd does not answer for a while.
        """
        ask, subject = encode(JobShow(id=self._wanted.id)), self._who.subject("job.show")
        return await repeat(lambda: self._bus.request(subject, ask, JobRecord), time.monotonic() + PATIENCE_S)
