"""The nursery of ``up``, as ``up`` sees it: a process that has imported all services, and forks them.

What it forks becomes a child of ``up``. The nursery forks twice, and the process between ends at once. Meanwhile ``up``
adopts what loses its parent, as the kernel's "subreaper". So ``up`` waits for a service, and the kernel signals the
service when ``up`` dies, just as if ``up`` had started it. If the nursery ends, no service notices, and ``up`` starts
new interpreters from then on.
"""

from __future__ import annotations

import ctypes
import logging
import marshal
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from rankd.services.up.forked import Forked

log = logging.getLogger("rankd.up")

FORK = b"fork"
NUMBER = struct.Struct("<q")
ANSWER_S = 60.0
"""How long the nursery may take to import everything and to fork. After that, ``up`` goes on without it."""

_PR_SET_CHILD_SUBREAPER = 36


class NurseryLost(Exception):
    """The nursery has ended, or does not answer."""


class Plan(NamedTuple):
    """What a forked process becomes.

    ``arguments`` are those of ``rankd``. ``orphaned``: the signal that it gets when ``parent``, ``up``, dies.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    umask: int
    orphaned: int
    parent: int


def encode(plan: Plan) -> bytes:
    """As a forked process reads it: its length, then its content."""
    arguments, environment = list(plan.arguments), dict(plan.environment)
    content = marshal.dumps((arguments, environment, plan.umask, int(plan.orphaned), plan.parent))
    return NUMBER.pack(len(content)) + content


class Nursery:
    """The process ``pid`` at the other end of a connection."""

    def __init__(self, pid: int, connection: socket.socket, answer_s: float = ANSWER_S) -> None:
        self._process = Forked(pid)
        self._connection = connection
        self._answer_s = answer_s
        self._asking = threading.Lock()
        self._is_lost = False

    def fork(self, plan: Plan, log_descriptor: int) -> Forked:
        """Fork a service; returns once it knows what it becomes. Its output goes to the descriptor.

        Raises:
            OSError: no more processes can be made.
            NurseryLost: the nursery has ended or does not answer, now or before.
        """
        with self._asking:
            if self._is_lost:
                raise NurseryLost
            try:
                return self._fork(plan, log_descriptor)
            except NurseryLost as error:
                log.warning("the nursery (process %d) %s; services start without it", self._process.pid, error)
                self._end()
                raise

    def _fork(self, plan: Plan, log_descriptor: int) -> Forked:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(self._answer_s)
            with _adopting():
                self._ask(theirs, log_descriptor)
                child = Forked(_pid(ours))
            with suppress(OSError):  # it has ended already, and its waiter will notice
                ours.sendall(encode(plan))
            return child

    def _ask(self, channel: socket.socket, log_descriptor: int) -> None:
        try:
            socket.send_fds(self._connection, [FORK], [channel.fileno(), log_descriptor])
        except OSError as error:
            raise NurseryLost(f"has ended: {error}") from error
        finally:
            channel.close()  # so that its end is noticed

    def __enter__(self) -> None:
        """At the end of the block, the nursery ends. What it has forked stays."""

    def __exit__(self, *_: object) -> None:
        with self._asking:
            self._end()

    def _end(self) -> None:
        self._is_lost = True
        self._connection.close()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@contextmanager
def _adopting() -> Iterator[None]:
    """While this lasts, what loses its parent below this process becomes its child."""
    prctl = ctypes.CDLL(None).prctl
    if prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise NurseryLost("is of no use: this system lets no process adopt others")
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _pid(channel: socket.socket) -> int:
    """The pid that the nursery answers."""
    try:
        answer = channel.recv(NUMBER.size)
    except TimeoutError as error:
        raise NurseryLost("does not answer") from error
    except OSError as error:
        raise NurseryLost(f"has ended: {error}") from error
    if len(answer) < NUMBER.size:
        raise NurseryLost("has ended")
    pid = int(NUMBER.unpack(answer)[0])
    if pid < 0:
        raise OSError(-pid, f"can't fork: {os.strerror(-pid)}")
    return pid
