"""``Client``: rankd for programs that use asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from rankd.client import operation
from rankd.client.async_channel import AsyncChannel, AsyncSocketChannel, carry_out
from rankd.client.error import as_raised
from rankd.client.job_form import JobLike, ScriptLike
from rankd.client.operation import Conditions, Names
from rankd.client.step import Plan
from rankd.client.target import Options, Target
from rankd.client.waiting import begin, more
from rankd.core.errors import RankdError
from rankd.wire.event import UserTransition
from rankd.wire.forecast_record import JobWhen
from rankd.wire.job_record import AccountingRow, JobRecord, JobRow, PastEvent
from rankd.wire.job_selection import JobName, SelectionReply
from rankd.wire.rank_record import PriorityRow, Why
from rankd.wire.session import JobLog, Stream
from rankd.wire.submission import BatchReply, Submitted
from rankd.wire.table_record import NodeRow, QueueRow, ShareRow

if TYPE_CHECKING:
    from rankd.client.async_bus import AsyncBusChannel

T = TypeVar("T")


class Client:
    """rankd, asked by a program that uses asyncio: ``async with Client() as rankd``.

    Which rankd, and as whom: as for commands. See :class:`rankd.client.target.Options` for the arguments. It connects
    with the first request, connects again by itself, and takes several calls at once, all in one event loop. Every
    method raises a :class:`rankd.client.error.RequestError`.
    """

    def __init__(self, nats: str | None = None, **options: Unpack[Options]) -> None:
        self._target = Target(nats, options)
        self._effort = self._target.effort
        self._opening: asyncio.Lock | None = None
        self._channel: AsyncChannel | None = None
        self._sessions: AsyncBusChannel | None = None

    async def __aenter__(self) -> Self:
        """Begin; nothing is sent yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self.close()

    async def close(self) -> None:
        """Close the connection. Calls that wait fail."""
        channel, self._channel = self._channel, None
        sessions, self._sessions = self._sessions, None
        for one in (channel, sessions):
            if one is not None:
                await one.close()

    async def run(self, plan: Plan[T]) -> T:
        """Carry an operation out; see :mod:`rankd.client.operation`.

        Raises:
            RequestError: it failed.
        """
        try:
            return await carry_out(plan, await self._opened())
        except RankdError as error:
            raise as_raised(error) from error.__cause__

    async def _opened(self) -> AsyncChannel:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._channel is None:
                way = await asyncio.to_thread(self._target.way)
                if way.socket is not None:
                    self._channel = AsyncSocketChannel(way.socket)
                else:
                    from rankd.client.async_bus import AsyncBusChannel

                    self._channel = AsyncBusChannel(way)
            return self._channel

    async def request(self, verb: str, message: object, kind: type[T] | None = None) -> T:
        """Send any request, once, and return its answer; ``kind``: what it is decoded as, by default a mapping."""
        return await self.run(operation.request(verb, message, kind))

    @overload
    async def submit(
        self, job: Sequence[JobLike], /, *, key: str | None = None, atomic: bool = False
    ) -> BatchReply: ...
    @overload
    async def submit(
        self,
        job: JobLike | ScriptLike | None = None,
        /,
        *,
        key: str | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> Submitted: ...
    async def submit(
        self,
        job: JobLike | ScriptLike | Sequence[JobLike] | None = None,
        /,
        *,
        key: str | None = None,
        atomic: bool = False,
        **fields: Any,
    ) -> Submitted | BatchReply:
        """Submit a job, a script, or a list of jobs; see :func:`rankd.client.operation.submit`."""
        is_local = await asyncio.to_thread(self._target.is_local)
        return await self.run(operation.submit(job, fields, self._effort, key=key, atomic=atomic, is_local=is_local))

    @overload
    async def wait(self, jobs: JobName, *, timeout_s: float | None = None) -> JobRecord: ...  # type: ignore[overload-overlap]  # a text is one name
    @overload
    async def wait(self, jobs: Sequence[JobName], *, timeout_s: float | None = None) -> list[JobRecord]: ...
    async def wait(self, jobs: Names, *, timeout_s: float | None = None) -> JobRecord | list[JobRecord]:
        """Wait until a job, an array or a task has ended, or all of a list; returns the records, in this order.

        Raises:
            WaitTimeout: that took longer than ``timeout_s`` seconds.
        """
        return await self.run(operation.wait(jobs, self._effort, timeout_s))

    async def events(
        self,
        jobs: Names | None = None,
        *,
        after: int | None = None,
        since: float | None = None,
        users: str | Sequence[str] | None = None,
    ) -> AsyncGenerator[UserTransition, None]:
        """Follow events of jobs, each once and in order, without end.

        By default from now on; from the id ``after``, or the time ``since`` (UTC seconds). Own jobs, or with an
        administrator's rights all, or those of ``users``; ``jobs``: only these.
        """
        wanted = operation.wanted_events(jobs, users)
        page = await self.run(begin(wanted, self._effort, after, since))
        while True:
            for event in page.events:
                yield event
            page = await self.run(more(wanted, self._effort, page.last))

    async def logs(
        self,
        job: JobName,
        *,
        follow: bool = False,
        stream: Stream = "stdout",
        lines: int | None = None,
        node: str | None = None,
        attempt: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """What a job writes, from any host: from the beginning, or the last ``lines``.

        ``follow``: wait for the job to start, and go on until it has ended. ``node``: by default its first one.
        ``attempt``: from 1, by default the last one.
        """
        wanted = JobLog(id=job, stream=stream, follow=follow, tail_lines=lines, node=node, attempt=attempt)
        try:
            parts = (await (await self._opened_bus()).output(wanted)).parts()
            async for part in parts:
                yield part
        except RankdError as error:
            raise as_raised(error) from error.__cause__

    async def _opened_bus(self) -> AsyncBusChannel:
        """The connection that carries sessions, also where requests go over a login socket."""
        from rankd.client.async_bus import AsyncBusChannel

        channel = await self._opened()
        if isinstance(channel, AsyncBusChannel):
            return channel
        if self._sessions is None:
            self._sessions = AsyncBusChannel(await asyncio.to_thread(self._target.bus_way))
        return self._sessions

    async def show(self, job: JobName) -> JobRecord:
        """The record of a job, an array or a task."""
        return await self.run(operation.show(job, self._effort))

    async def why(self, job: JobName) -> Why:
        """Why a job has its rank, and why it waits."""
        return await self.run(operation.why(job, self._effort))

    async def when(self, job: JobName) -> JobWhen:
        """When a pending job will start: a range, and why an end of it is not known."""
        return await self.run(operation.when(job, self._effort))

    async def script(self, job: JobName) -> str:
        """The script of an own job, as it was submitted."""
        return await self.run(operation.script(job, self._effort))

    async def history(self, job: JobName) -> list[PastEvent]:
        """The events of a job, oldest first."""
        return await self.run(operation.history(job, self._effort))

    async def queue(self, **conditions: Unpack[Conditions]) -> list[JobRow]:
        """Jobs by id; without ``states``: those that have not ended."""
        return await self.run(operation.queue(conditions, self._effort))

    async def acct(
        self, *, since: float | None = None, until: float | None = None, **conditions: Unpack[Conditions]
    ) -> list[AccountingRow]:
        """What jobs used, by id; ``since``, ``until``: jobs of this time (UTC seconds)."""
        return await self.run(operation.acct(conditions, self._effort, since, until))

    async def prio(self, **conditions: Unpack[Conditions]) -> list[PriorityRow]:
        """Pending jobs by rank, with the parts of their priority."""
        return await self.run(operation.prio(conditions, self._effort))

    async def nodes(self) -> list[NodeRow]:
        """All nodes."""
        return await self.run(operation.nodes(self._effort))

    async def queues(self) -> list[QueueRow]:
        """All queues."""
        return await self.run(operation.queues(self._effort))

    async def shares(self) -> list[ShareRow]:
        """All accounts and their users, as far as the asker sees them."""
        return await self.run(operation.shares(self._effort))

    async def cancel(
        self, jobs: Names | None = None, *, dry_run: bool = False, **conditions: Unpack[Conditions]
    ) -> SelectionReply:
        """Cancel jobs, by name or by conditions. A single one that can't be changed is an error."""
        return await self.run(operation.act("job.cancel", jobs, conditions, self._effort, dry_run=dry_run))

    async def hold(
        self, jobs: Names | None = None, *, dry_run: bool = False, **conditions: Unpack[Conditions]
    ) -> SelectionReply:
        """Hold pending jobs."""
        return await self.run(operation.act("job.hold", jobs, conditions, self._effort, dry_run=dry_run))

    async def release(
        self, jobs: Names | None = None, *, dry_run: bool = False, **conditions: Unpack[Conditions]
    ) -> SelectionReply:
        """Release held jobs."""
        return await self.run(operation.act("job.release", jobs, conditions, self._effort, dry_run=dry_run))

    async def signal(
        self,
        jobs: Names | None,
        signal: str | int,
        *,
        dry_run: bool = False,
        **conditions: Unpack[Conditions],
    ) -> SelectionReply:
        """Send a signal to the processes of running jobs, once each: its name or its number."""
        return await self.run(operation.send_signal(jobs, signal, conditions, self._effort, dry_run=dry_run))

    async def update(self, jobs: Names, *, dry_run: bool = False, **changes: Any) -> SelectionReply:  # noqa: ANN401
        """Change fields of pending jobs, or the time limit of running ones."""
        return await self.run(operation.update(jobs, changes, self._effort, dry_run=dry_run))

    async def retry(
        self, job: JobName, *, failed: bool = False, held: bool = False, key: str | None = None
    ) -> Submitted:
        """Submit an ended job, array or task again; ``failed``: only what did not complete."""
        return await self.run(operation.retry(job, self._effort, failed=failed, held=held, key=key))
