"""``SyncClient``: rankd for programs that block. A login socket needs neither an event loop nor a NATS client."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from rankd.client import operation
from rankd.client.blocking import carry_out
from rankd.client.channel import SocketChannel
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
    from rankd.client.thread import BusThread

T = TypeVar("T")


class SyncClient:
    """rankd, asked by a program that waits for each answer: ``with SyncClient() as rankd``.

    Arguments and methods are those of :class:`rankd.client.Client`. Several threads may use one client. Over a broker,
    the connection lives in a thread of its own.
    """

    def __init__(self, nats: str | None = None, **options: Unpack[Options]) -> None:
        self._target = Target(nats, options)
        self._effort = self._target.effort
        self._opening = threading.Lock()
        self._way: SocketChannel | BusThread | None = None
        self._sessions: BusThread | None = None

    def __enter__(self) -> Self:
        """Begin; nothing is sent yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        with self._opening:
            ways = [self._way, self._sessions]
            self._way = self._sessions = None
        for way in ways:
            if way is not None and not isinstance(way, SocketChannel):
                way.close()

    def run(self, plan: Plan[T]) -> T:
        """Carry an operation out; see :mod:`rankd.client.operation`.

        Raises:
            RequestError: it failed.
        """
        try:
            way = self._opened()
            return carry_out(plan, way) if isinstance(way, SocketChannel) else way.run(plan)
        except RankdError as error:
            raise as_raised(error) from error.__cause__

    def _opened(self) -> SocketChannel | BusThread:
        with self._opening:
            if self._way is None:
                found = self._target.way()
                if found.socket is not None:
                    self._way = SocketChannel(found.socket)
                else:
                    from rankd.client.thread import BusThread

                    self._way = BusThread(found)
            return self._way

    def request(self, verb: str, message: object, kind: type[T] | None = None) -> T:
        """Send any request, once, and return its answer; ``kind``: what it is decoded as, by default a mapping."""
        return self.run(operation.request(verb, message, kind))

    @overload
    def submit(self, job: Sequence[JobLike], /, *, key: str | None = None, atomic: bool = False) -> BatchReply: ...
    @overload
    def submit(
        self,
        job: JobLike | ScriptLike | None = None,
        /,
        *,
        key: str | None = None,
        **fields: Any,  # noqa: ANN401
    ) -> Submitted: ...
    def submit(
        self,
        job: JobLike | ScriptLike | Sequence[JobLike] | None = None,
        /,
        *,
        key: str | None = None,
        atomic: bool = False,
        **fields: Any,
    ) -> Submitted | BatchReply:
        """Submit a job, a script, or a list of jobs; see :func:`rankd.client.operation.submit`."""
        is_local = self._target.is_local()
        return self.run(operation.submit(job, fields, self._effort, key=key, atomic=atomic, is_local=is_local))

    @overload
    def wait(self, jobs: JobName, *, timeout_s: float | None = None) -> JobRecord: ...  # type: ignore[overload-overlap]  # a text is one name
    @overload
    def wait(self, jobs: Sequence[JobName], *, timeout_s: float | None = None) -> list[JobRecord]: ...
    def wait(self, jobs: Names, *, timeout_s: float | None = None) -> JobRecord | list[JobRecord]:
        """Wait until a job, an array or a task has ended, or all of a list; returns the records, in this order.

        Raises:
            WaitTimeout: that took longer than ``timeout_s`` seconds.
        """
        return self.run(operation.wait(jobs, self._effort, timeout_s))

    def events(
        self,
        jobs: Names | None = None,
        *,
        after: int | None = None,
        since: float | None = None,
        users: str | Sequence[str] | None = None,
    ) -> Generator[UserTransition, None, None]:
        """Follow events of jobs, each once and in order, without end.

        By default from now on; from the id ``after``, or the time ``since`` (UTC seconds). Own jobs, or with an
        administrator's rights all, or those of ``users``; ``jobs``: only these.
        """
        wanted = operation.wanted_events(jobs, users)
        page = self.run(begin(wanted, self._effort, after, since))
        while True:
            yield from page.events
            page = self.run(more(wanted, self._effort, page.last))

    def logs(
        self,
        job: JobName,
        *,
        follow: bool = False,
        stream: Stream = "stdout",
        lines: int | None = None,
        node: str | None = None,
        attempt: int | None = None,
    ) -> Generator[bytes, None, None]:
        """What a job writes, from any host: from the beginning, or the last ``lines``.

        ``follow``: wait for the job to start, and go on until it has ended. ``node``: by default its first one.
        ``attempt``: from 1, by default the last one.
        """
        wanted = JobLog(id=job, stream=stream, follow=follow, tail_lines=lines, node=node, attempt=attempt)
        try:
            yield from self._opened_bus().logs(wanted)
        except RankdError as error:
            raise as_raised(error) from error.__cause__

    def _opened_bus(self) -> BusThread:
        """The connection that carries sessions, also where requests go over a login socket."""
        way = self._opened()
        if not isinstance(way, SocketChannel):
            return way
        from rankd.client.thread import BusThread

        with self._opening:
            if self._sessions is None:
                self._sessions = BusThread(self._target.bus_way())
            return self._sessions

    def show(self, job: JobName) -> JobRecord:
        """The record of a job, an array or a task."""
        return self.run(operation.show(job, self._effort))

    def why(self, job: JobName) -> Why:
        """Why a job has its rank, and why it waits."""
        return self.run(operation.why(job, self._effort))

    def when(self, job: JobName) -> JobWhen:
        """When a pending job will start: a range, and why an end of it is not known."""
        return self.run(operation.when(job, self._effort))

    def script(self, job: JobName) -> str:
        """The script of an own job, as it was submitted."""
        return self.run(operation.script(job, self._effort))

    def history(self, job: JobName) -> list[PastEvent]:
        """The events of a job, oldest first."""
        return self.run(operation.history(job, self._effort))

    def queue(self, **conditions: Unpack[Conditions]) -> list[JobRow]:
        """Jobs by id; without ``states``: those that have not ended."""
        return self.run(operation.queue(conditions, self._effort))

    def acct(
        self, *, since: float | None = None, until: float | None = None, **conditions: Unpack[Conditions]
    ) -> list[AccountingRow]:
        """What jobs used, by id; ``since``, ``until``: jobs of this time (UTC seconds)."""
        return self.run(operation.acct(conditions, self._effort, since, until))

    def prio(self, **conditions: Unpack[Conditions]) -> list[PriorityRow]:
        """Pending jobs by rank, with the parts of their priority."""
        return self.run(operation.prio(conditions, self._effort))

    def nodes(self) -> list[NodeRow]:
        """All nodes."""
        return self.run(operation.nodes(self._effort))

    def queues(self) -> list[QueueRow]:
        """All queues."""
        return self.run(operation.queues(self._effort))

    def shares(self) -> list[ShareRow]:
        """All accounts and their users, as far as the asker sees them."""
        return self.run(operation.shares(self._effort))

    def cancel(
        self, jobs: Names | None = None, *, dry_run: bool = False, **conditions: Unpack[Conditions]
    ) -> SelectionReply:
        """Cancel jobs, by name or by conditions. A single one that can't be changed is an error."""
        return self.run(operation.act("job.cancel", jobs, conditions, self._effort, dry_run=dry_run))

    def hold(
        self, jobs: Names | None = None, *, dry_run: bool = False, **conditions: Unpack[Conditions]
    ) -> SelectionReply:
        """Hold pending jobs."""
        return self.run(operation.act("job.hold", jobs, conditions, self._effort, dry_run=dry_run))

    def release(
        self, jobs: Names | None = None, *, dry_run: bool = False, **conditions: Unpack[Conditions]
    ) -> SelectionReply:
        """Release held jobs."""
        return self.run(operation.act("job.release", jobs, conditions, self._effort, dry_run=dry_run))

    def signal(
        self,
        jobs: Names | None,
        signal: str | int,
        *,
        dry_run: bool = False,
        **conditions: Unpack[Conditions],
    ) -> SelectionReply:
        """Send a signal to the processes of running jobs, once each: its name or its number."""
        return self.run(operation.send_signal(jobs, signal, conditions, self._effort, dry_run=dry_run))

    def update(self, jobs: Names, *, dry_run: bool = False, **changes: Any) -> SelectionReply:  # noqa: ANN401
        """Change fields of pending jobs, or the time limit of running ones."""
        return self.run(operation.update(jobs, changes, self._effort, dry_run=dry_run))

    def retry(self, job: JobName, *, failed: bool = False, held: bool = False, key: str | None = None) -> Submitted:
        """Submit an ended job, array or task again; ``failed``: only what did not complete."""
        return self.run(operation.retry(job, self._effort, failed=failed, held=held, key=key))
