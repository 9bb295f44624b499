"""A child that another process has forked for this one."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading


class Forked:
    """The child with this pid, with what ``up`` uses of :class:`subprocess.Popen`. Threads may wait for it together."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._descriptor = os.pidfd_open(pid)
        self._reaping = threading.Lock()

    def poll(self) -> int | None:
        """As :meth:`wait`, or None while it runs."""
        with self._reaping:
            if self.returncode is None and self._has_ended(0):
                self.returncode = _status(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit status, or minus the number of the signal that ended it.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        while (status := self.poll()) is None:
            if not self._has_ended(timeout):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def _has_ended(self, timeout_s: float | None) -> bool:
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        return bool(waiting.poll(None if timeout_s is None else timeout_s * 1000))

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, number)

    def terminate(self) -> None:
        """Send SIGTERM, if it runs."""
        self.send_signal(signal.SIGTERM)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)


def _status(pid: int) -> int:
    """Reap a child that has ended. Where SIGCHLD is ignored, the kernel has done so: 0, as in Popen."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return 0
