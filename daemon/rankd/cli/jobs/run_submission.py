"""The submission of ``rankd run``, on the way that is ready first, and the signals that arrive until it is followed."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from rankd.client.channel import Channel
    from rankd.client.run_job import RunningJob


class Submission:
    """The job, which is submitted once: at the login socket, before anything slow is imported, or on the connection.

    Signals that arrive before the job is followed are kept in ``early``, so that the job is cancelled then.
    """

    def __init__(self, arguments: argparse.Namespace, job: dict[str, Any]) -> None:
        self.early = EarlySignals()
        self._arguments = arguments
        self._job = job
        self._until = time.monotonic() + arguments.retry_for
        self._id: int | None = None

    def send_at_socket(self) -> None:
        """Submit it, if `rankd submit` would ask at a login socket here.

        Raises:
            RankdError: it is refused, or nobody answers.
        """
        from rankd.cli.common.place import find
        from rankd.client.asker import refuse_empty_name
        from rankd.client.channel import own_channel

        refuse_empty_name(self._arguments.asker)
        if not self._arguments.admin and (own := own_channel(find(self._arguments))) is not None:
            self.send(own)

    def send(self, channel: Channel) -> None:
        """Submit it, unless that is done. Raises as :meth:`send_at_socket`."""
        if self._id is not None:
            return
        from rankd.cli.common.screen import print_line
        from rankd.cli.jobs.delivery import submit

        accepted = submit(channel, [self._job], self._arguments, self._until)
        for line in (accepted.warning or "").splitlines():
            print_line(f"rankd: {line}", error=True)
        self._id = accepted.ids[0]

    async def follow(self, job: RunningJob) -> int:
        """Follow it; returns its exit status."""
        if self._id is None:
            raise RuntimeError("the job was not submitted")
        return await job.follow(self._id)


class EarlySignals:
    """Keeps signals that arrive between the submission and the following, so that the job is cancelled then."""

    def __init__(self) -> None:
        self.arrived: list[int] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda arrived, _frame: self.arrived.append(arrived))
