"""One worker process as its service sees it: start, ask, receive, end with everything that it started."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
import weakref
from contextlib import suppress
from typing import TypeVar

import msgspec
import numpy as np

from rankd.core.errors import Unavailable
from rankd.core.ranking.columns import FloatArray
from rankd.plugin.frame import receive, send
from rankd.plugin.interpreter import python_command, python_environment
from rankd.plugin.message import Answer, Ask, Hello, Start

T = TypeVar("T", Hello, Answer)

_STATUS_S = 0.1
_END_S = 1.0


class WorkerProcess:
    """A running worker. If it has ended, every method raises Unavailable with the reason.

    ``limit_s``: the longest time for sending to it, and for receiving from it.
    """

    def __init__(self, start: Start, limit_s: float) -> None:
        self._limit_s = limit_s
        self.started_at = time.monotonic()
        self._own, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                python_command("rankd.plugin.worker", str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=python_environment(os.environ) | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        finally:
            theirs.close()
        self.pid = self._process.pid
        self.end = weakref.finalize(self, _end, self._process, self._own)
        """Kills it and everything in its group; also called when this object is no longer used."""
        self._send(msgspec.msgpack.encode(start), b"", None)

    def has_answered(self, until: float) -> bool:
        """Wait until ``until`` (monotonic) for something to receive, or for its end; returns whether there is one."""
        poll = select.poll()  # two threads may wait at the same time
        try:
            poll.register(self._own, select.POLLIN)
        except ValueError:  # ended by another thread
            return True
        return bool(poll.poll(max(until - time.monotonic(), 0.0) * 1000.0))

    def hello(self) -> Hello:
        """Its first message."""
        return self._received(0, Hello)[0]

    def ask(self, ask: Ask, payload: bytearray, descriptor: int | None) -> None:
        """Ask it to compute values; it must be waiting for that."""
        self._send(msgspec.msgpack.encode(ask), payload, descriptor)

    def answer(self, most: int) -> tuple[Answer, FloatArray]:
        """Its answer, with at most ``most`` values."""
        answer, payload = self._received(most * 8, Answer)
        if len(payload) % 8:
            raise Unavailable("plugin_gone", f"its answer has {len(payload)} bytes, which is not a multiple of 8")
        return answer, np.frombuffer(payload, dtype=np.float64)

    def _send(self, header: bytes, payload: bytes | bytearray, descriptor: int | None) -> None:
        self._own.settimeout(self._limit_s)
        try:
            send(self._own, header, memoryview(payload), descriptor)
        except TimeoutError:
            raise Unavailable("plugin_gone", "it does not read its requests") from None
        except OSError:
            raise self._ended() from None

    def _received(self, most: int, kind: type[T]) -> tuple[T, bytearray]:
        try:
            frame = receive(self._own, most, time.monotonic() + self._limit_s)
            return msgspec.msgpack.decode(frame.header, type=kind), frame.payload
        except Unavailable as error:
            raise self._ended(error.message) from None
        except msgspec.MsgspecError as error:
            raise Unavailable("plugin_gone", f"its message is not an answer: {error}") from None

    def _ended(self, otherwise: str = "it no longer reads") -> Unavailable:
        """The error with the status if it has ended, else with ``otherwise``."""
        with suppress(subprocess.TimeoutExpired):
            status = self._process.wait(_STATUS_S)
            return Unavailable("plugin_gone", f"its process {_described(status)}")
        return Unavailable("plugin_gone", otherwise)


def _described(status: int) -> str:
    if status == -signal.SIGALRM:
        return "did not end in time and was ended"
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit status {status}"


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
