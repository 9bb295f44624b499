"""Reading what a job writes, where its file can be read by this process. Logs over the bus come in a later version.

The file is read with this process's own rights. A file that was last written before the job started is not the job's:
it belongs to an earlier attempt of the job on this machine.
"""

from __future__ import annotations

import os
from stat import S_ISREG
from typing import Literal

from rankd.client.step import Ask, Effort, Pause, Plan, answer
from rankd.core.errors import Refused
from rankd.core.model.job import FINAL_STATES
from rankd.wire.codec import encode
from rankd.wire.job_record import JobRecord
from rankd.wire.job_selection import JobName
from rankd.wire.page import JobShow

Stream = Literal["stdout", "stderr"]
PART_BYTES = 256 * 2**10
PAUSE_S = 0.2
LOOK_EVERY_S = 1.0
CLOCKS_DIFFER_S = 60.0
NOT_STARTED = frozenset({"pending", "allocated"})


class LogFile:
    """The output of one job, read part by part."""

    def __init__(self, job: JobName, stream: Stream, *, follow: bool) -> None:
        self._job = job
        self._stream = stream
        self._follow = follow
        self._handle: int | None = None
        self._is_ended = False
        self._looked_at = 0.0

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def part(self, effort: Effort) -> Plan[bytes | None]:
        """The next bytes; None at the end.

        Raises:
            Refused: ``not_started``; ``is_array``; ``log_not_here``: the file can't be read here.
        """
        if self._handle is None:
            self._handle = self._opened((yield from self._started(effort)))
            self._looked_at = effort.clock()
        while not (found := os.read(self._handle, PART_BYTES)):
            if self._is_ended or not self._follow:
                return None
            if effort.clock() < self._looked_at + LOOK_EVERY_S:
                yield Pause(PAUSE_S, PAUSE_S)
            else:
                yield from self._record(effort)
                self._looked_at = effort.clock()
        return found

    def _record(self, effort: Effort) -> Plan[JobRecord]:
        ask = Ask("job.show", encode(JobShow(id=self._job)), JobRecord)
        record: JobRecord = yield from answer(ask, effort)
        self._is_ended = record.state in FINAL_STATES
        return record

    def _started(self, effort: Effort) -> Plan[JobRecord]:
        """The record of the job once it has started."""
        while True:
            record = yield from self._record(effort)
            self._check_single(record)
            if record.started_at is not None and record.state not in NOT_STARTED:
                return record
            if self._is_ended or not self._follow:
                raise Refused("not_started", f"job {self._job} is {record.state} and has not started", "job", 409)
            yield Pause(LOOK_EVERY_S, LOOK_EVERY_S)

    def _check_single(self, record: JobRecord) -> None:
        """An array has no output: its record runs on no node."""
        has_run = record.started_at is not None and record.state not in NOT_STARTED and record.nodelist is None
        if record.array_task is None and (record.array is not None or has_run):
            example = f"logs('{record.id}_0')"
            message = f"job {self._job} is an array, whose tasks each have an output of their own; name one: {example}"
            raise Refused("is_array", message, "job")

    def _opened(self, record: JobRecord) -> int:
        path: str | None = getattr(record, self._stream)
        if path is None or not path.startswith("/"):
            raise self._not_here(record, f"no file is known for {self._stream}")
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise self._not_here(record, f"{path}: {error.strerror}") from None
        status, started_at = os.fstat(handle), record.started_at or 0.0
        if not S_ISREG(status.st_mode) or status.st_mtime < started_at - CLOCKS_DIFFER_S:
            os.close(handle)
            raise self._not_here(record, f"{path} is not the file of this run")
        return handle

    def _not_here(self, record: JobRecord, why: str) -> Refused:
        message = f"the output of job {self._job} on {record.nodelist or 'its node'} can't be read here: {why}"
        return Refused("log_not_here", message, "job", 404)
