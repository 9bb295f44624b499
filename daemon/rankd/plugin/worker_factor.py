"""A factor of another package, in its worker. It works like any other factor, and never delays a pass for long.

A full pass asks all workers when it begins (:meth:`WorkerFactor.begin`), and waits no longer than the deadline. A later
answer is used from the next pass on, as the last good values. A worker that was late, or is new, is not waited for
until it has answered in time. A worker that does not answer at all is ended and started again, with growing pauses. A
delta waits a tenth of the deadline.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from rankd.core.errors import FactorError, Unavailable
from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray, IntArray
from rankd.core.ranking.factor import FactorContext, Per
from rankd.core.ranking.priority import FactorValues
from rankd.plugin.block import JOB_BYTES, Block, Blocks, write_columns
from rankd.plugin.briefing import Briefing
from rankd.plugin.message import Hello, Start
from rankd.plugin.process import WorkerProcess
from rankd.plugin.worker_state import WorkerCounts, WorkerState

log = logging.getLogger("rankd.plugin")

START_S = 30.0
"""Seconds for an interpreter and the plugin's imports, on a busy machine."""
PATIENCE = 10
"""After this many deadlines without an answer, the worker is ended."""
PART_OF_DELTA = 0.1
"""The part of the deadline for which a delta waits, and for which a pass waits for a delta's answer."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0
FEW_JOBS = 4_096
"""Up to this many jobs are sent on the socket, more in shared memory."""

_BLOCKS = Blocks()


class _Asked(msgspec.Struct):
    """A request to a worker. ``context`` is None for a delta. ``is_missed``: the asker no longer waits."""

    number: int
    at: float
    per: Per
    size: int
    keys: IntArray
    context: FactorContext | None
    block: Block | None
    is_missed: bool = False


class WorkerFactor:
    """A factor whose values a worker computes.

    ``entry``: ``module:Class``. If ``is_live`` is false (a document is evaluated), every answer is waited for until its
    deadline, and a worker that has ended is not started again.
    """

    def __init__(self, name: str, entry: str, settings: PrioritySettings, *, is_live: bool = True) -> None:
        self.name = name
        self.per = Per.JOB
        self.lowest, self.highest = -np.inf, np.inf
        self.is_given = False
        self.counts = WorkerCounts()
        self._start_message = Start(
            name=name,
            entry=entry,
            argument=name.partition(".")[2],
            settings=settings,
            path=list(sys.path),
            time_limit_s=START_S,
        )
        self._deadline_s = settings.plugins.deadline_s
        self._is_live = is_live
        self._guard = threading.Condition(threading.RLock())
        """Held while sending and receiving, but not while waiting for an answer; notified when the worker is free."""
        self._worker: WorkerProcess | None = None
        self._hello: Hello | None = None
        self._briefing = Briefing()
        self._asked: _Asked | None = None
        self._is_trusted = True
        self._retry_at, self._pause_s = 0.0, FIRST_PAUSE_S
        self._late: FactorValues | None = None

    @property
    def pid(self) -> int | None:
        """The pid of its worker; None without one."""
        worker = self._worker
        return None if worker is None else worker.pid

    @property
    def is_known(self) -> bool:
        """Whether its worker has sent the factor's properties."""
        return self._hello is not None

    def expect(self, per: Per) -> None:
        """Set to what its values belong until its worker reports it."""
        if self._hello is None:
            self.per = per

    def sql(self) -> str | None:
        """The formula that the worker sent; None without one."""
        return None if self._hello is None else self._hello.sql

    def parameters(self) -> Mapping[str, float]:
        """The parameters that the worker sent."""
        return {} if self._hello is None else self._hello.parameters

    def start(self, until: float) -> None:
        """Start the worker, and wait until ``until`` for it to send the factor's properties."""
        self.refresh()
        while (worker := self._worker) is not None and self._hello is None and worker.has_answered(until):
            self.refresh()

    def close(self) -> None:
        """End the worker."""
        with self._guard:
            self._drop()

    def refresh(self) -> FactorValues | None:
        """Between two passes: read late answers, end a hanging worker, start one that is due. Returns late values.

        The factor's properties change only here.
        """
        with self._guard:
            now = time.monotonic()
            try:
                if self._worker is None:
                    self._start_if_due(now)
                elif self._hello is None:
                    self._take_hello(self._worker, now)
                elif self._asked is not None:
                    self._take_late(self._worker, self._asked, now)
            except Unavailable as error:
                self._end(error.message)
            late, self._late = self._late, None
            return late

    def _start_if_due(self, now: float) -> None:
        if now >= self._retry_at:
            self.counts.state, self._briefing = WorkerState.STARTING, Briefing()
            self._worker = WorkerProcess(self._start_message, self._deadline_s)

    def _take_hello(self, worker: WorkerProcess, now: float) -> None:
        if worker.has_answered(now):
            hello = worker.hello()
            if hello.error:
                raise Unavailable("plugin_refused", hello.error)
            self._hello = hello
            self.per, self.lowest, self.highest, self.is_given = hello.per, hello.lowest, hello.highest, hello.is_given
        elif now > worker.started_at + START_S:
            raise Unavailable("plugin_gone", f"it did not start within {START_S:g} s")

    def _take_late(self, worker: WorkerProcess, asked: _Asked, now: float) -> None:
        is_over = asked.is_missed or asked.context is not None  # otherwise a delta still waits for it
        if is_over and worker.has_answered(now):
            try:
                values = self._received(worker, asked)
            except FactorError:
                return
            if asked.context is not None:
                self._late = FactorValues(name=self.name, weight=1.0, per=asked.per, values=values, keys=asked.keys)
        elif now > asked.at + PATIENCE * self._deadline_s:
            raise Unavailable("plugin_gone", f"it did not answer within {PATIENCE * self._deadline_s:g} s")

    def begin(self, context: FactorContext) -> None:
        """Ask the worker for the values of this context, which a full pass will use."""
        with self._guard:
            self._until_free(time.monotonic() + PART_OF_DELTA * self._deadline_s)
            if self._worker is not None and self._hello is not None and self._asked is None:
                keys = context.jobs.ids if self.per is Per.JOB else np.arange(context.groups.size(self.per, 0))
                self._ask(self._worker, context, keys, is_pass=True)

    def _until_free(self, until: float) -> None:
        """Wait until other requests are answered, at most until ``until``; not at all for a worker that was late."""
        while self._asked is not None and self._is_trusted and (left := until - time.monotonic()) > 0:
            self._guard.wait(left)

    def _ask(self, worker: WorkerProcess, context: FactorContext, keys: IntArray, *, is_pass: bool) -> _Asked:
        jobs, self.counts.asked = context.jobs, self.counts.asked + 1
        block = _BLOCKS.hold(jobs) if len(jobs) > FEW_JOBS else None
        self._asked = asked = _Asked(
            number=self.counts.asked,
            at=time.monotonic(),
            per=self.per,
            size=context.groups.size(self.per, len(jobs)),
            keys=keys,
            context=context if is_pass else None,
            block=block,
        )
        payload = bytearray(0 if block else JOB_BYTES * len(jobs))
        if block is None:
            write_columns(jobs, payload)
        message = self._briefing.ask(asked.number, context, (PATIENCE + 1) * self._deadline_s)
        try:
            worker.ask(message, payload, None if block is None else block.descriptor)
        except Unavailable as error:
            self._end(error.message)
        return asked

    def values(self, context: FactorContext) -> FloatArray:
        """The values: of the pass that began with this context, or for a delta.

        Raises:
            FactorError: there are none in time, or none at all.
        """
        asked = self._asked
        if asked is None or asked.context is not context:
            return self._values_of_delta(context)
        is_waited_for = self._is_trusted or not self._is_live
        return self._awaited(asked, asked.at + self._deadline_s if is_waited_for else 0.0)

    def _values_of_delta(self, context: FactorContext) -> FloatArray:
        until = time.monotonic() + PART_OF_DELTA * self._deadline_s
        with self._guard:
            self._until_free(until)
            if self._worker is None or self._hello is None:
                raise self._absent(self.counts.message or "its worker has not started yet")
            if not self._is_trusted or self._asked is not None:
                why = "its worker is busy" if self._is_trusted else self.counts.message
                raise self._absent(why or "its worker has not answered yet")
            asked = self._ask(self._worker, context, context.jobs.ids, is_pass=False)
        return self._awaited(asked, until)

    def _awaited(self, asked: _Asked, until: float) -> FloatArray:
        worker = self._worker
        is_there = worker is not None and worker.has_answered(until)
        with self._guard:
            if worker is None or self._asked is not asked:
                raise self._failed(self.counts.message)
            if not is_there:
                raise self._missed(asked)
            try:
                return self._received(worker, asked)
            except Unavailable as error:
                self._end(error.message)
                raise self._failed(error.message) from None

    def _missed(self, asked: _Asked) -> FactorError:
        """Handle that the asker no longer waits for the answer."""
        asked.is_missed = True
        message = f"it does not answer within {self._deadline_s:g} s"
        self.counts.late += self._is_trusted
        self.counts.state, self._is_trusted = WorkerState.LATE, False
        if not self._is_live:
            self._end(message)
        self._failed(message)
        return self._absent(message)

    def _received(self, worker: WorkerProcess, asked: _Asked) -> FloatArray:
        """Receive the answer.

        Raises:
            FactorError: the answer is an error.
            Unavailable: the worker has ended, or sent something else.
        """
        answer, values = worker.answer(asked.size)
        self._release()
        self.counts.last_s, self._is_trusted = answer.took_s, answer.took_s <= self._deadline_s
        if answer.error:
            self.counts.state = WorkerState.FAILING
            raise self._failed(answer.error)
        if answer.number != asked.number or len(values) != asked.size:
            raise Unavailable("plugin_gone", f"it sent {len(values)} values for {asked.size}")
        if self._is_trusted:
            self.counts.state, self._pause_s = WorkerState.GOOD, FIRST_PAUSE_S
        return values

    def _end(self, message: str) -> None:
        """End the worker, which can't be used any more; another one starts after a pause."""
        self._drop()
        self._is_trusted, self._retry_at = False, np.inf
        self.counts.state, self.counts.message = WorkerState.ENDED, message
        self.counts.ended += 1
        if self._is_live:
            self._retry_at = time.monotonic() + self._pause_s
            log.warning("factor '%s': %s; its worker is started again in %g s", self.name, message, self._pause_s)
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _drop(self) -> None:
        worker, self._worker, self._hello = self._worker, None, None
        self._release()
        if worker is not None:
            worker.end()

    def _release(self) -> None:
        asked, self._asked = self._asked, None
        if asked is not None and asked.block is not None:
            _BLOCKS.give_back(asked.block)
        self._guard.notify_all()

    def _failed(self, message: str) -> FactorError:
        self.counts.failed += 1
        self.counts.message = message
        return FactorError(self.name, message)

    def _absent(self, message: str) -> FactorError:
        return FactorError(self.name, message, is_passing=True)


def workers_among(factors: Iterable[object]) -> list[WorkerFactor]:
    """Those of these factors that have a worker."""
    return [factor for factor in factors if isinstance(factor, WorkerFactor)]


def start_workers(factors: Iterable[object], patience_s: float) -> None:
    """Start all workers, and wait at most ``patience_s`` seconds until they have sent their factors' properties."""
    workers, until = workers_among(factors), time.monotonic() + patience_s
    for worker in workers:
        worker.refresh()
    for worker in workers:
        worker.start(until)


def late_values(factors: Iterable[object]) -> dict[str, FactorValues]:
    """Look after all workers between two passes; returns, by factor, the values that came after their pass."""
    found = {worker.name: worker.refresh() for worker in workers_among(factors)}
    return {name: late for name, late in found.items() if late is not None}
