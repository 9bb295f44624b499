"""The keeper's side of its helper, which forks jobs and waits for them (:mod:`rankd.services.keeper.helper`).

The helper and the keeper end together. Without its helper a keeper can neither start a job nor learn how one ended. So
it ends (:class:`HelperLost`), and the agent reports its jobs as lost.
"""

from __future__ import annotations

import errno
import marshal
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from rankd.services.keeper import helper as keeper_helper
from rankd.services.keeper.helper import COMMAND, DIRECTORY, ENDS, FILE, FORK, GROUP, INTERPRETER, NUMBER
from rankd.services.keeper.proc import Launch, Session

ANSWER_S = 30.0
END_S = 5.0
LONGEST_ANSWER = 65_536
NOT_FOUND = 127
NOT_EXECUTABLE = 126
NAME_SHOWN = 200


class HelperLost(Exception):
    """The helper has ended, or does not answer."""


class StartFailure(NamedTuple):
    """A command that could not be started; the status is the one that a shell would return."""

    exit_status: int
    message: str


class Waited(NamedTuple):
    """How a child ended: the status as :func:`os.wait4` returns it, memory in bytes, processor seconds."""

    status: int
    max_rss_bytes: int
    cpu_s: float


class Helper:
    """The helper process. Used by several threads. ``ends_children``: they end with this process, however it ends."""

    def __init__(self, *, ends_children: bool = False) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(ANSWER_S)
        self._asking = threading.Lock()
        options = [ENDS] if ends_children else []
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-I", "-S", keeper_helper.__file__, str(theirs.fileno()), *options],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self.ended = os.pidfd_open(self.process.pid)

    def fork(self) -> tuple[int, socket.socket]:
        """Fork a child that waits for its plan on a channel; returns its pid, and our end of the channel.

        Raises:
            OSError: no more processes can be made.
            HelperLost: the helper has ended.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with theirs:
                self._send(FORK, theirs)
            ours.settimeout(ANSWER_S)
            pid = _pid(ours)
        except BaseException:
            ours.close()
            raise
        return pid, ours

    def _send(self, message: bytes, *descriptors: socket.socket) -> None:
        try:
            socket.send_fds(self._socket, [message], [each.fileno() for each in descriptors])
        except OSError as error:
            raise HelperLost(str(error)) from error

    def reap(self, pid: int) -> Waited:
        """Wait for a child that has ended.

        Raises:
            HelperLost: the helper has ended.
        """
        with self._asking:
            self._send(b"%d" % pid)
            try:
                return Waited(*marshal.loads(self._socket.recv(LONGEST_ANSWER)))  # noqa: S302 - our own helper
            except (OSError, EOFError) as error:
                raise HelperLost(str(error)) from error

    def close(self) -> None:
        """Disconnect from the helper, after the last job; it then ends."""
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)


def _pid(channel: socket.socket) -> int:
    try:
        answer = channel.recv(NUMBER.size)
    except OSError as error:
        raise HelperLost(str(error)) from error
    if len(answer) < NUMBER.size:
        raise HelperLost("the helper has ended")
    pid = int(NUMBER.unpack(answer)[0])
    if pid < 0:
        raise OSError(-pid, f"can't fork: {os.strerror(-pid)}")
    return pid


def plan_of(launch: Launch, joins: Sequence[str]) -> bytes:
    """A child's plan, encoded as the child reads it. ``joins``: the control files that it uses to enter its groups."""
    user = launch.identity
    plan = {
        "command": list(launch.command),
        "environment": dict(launch.environment),
        "cwd": launch.cwd,
        "may_lack_cwd": launch.may_lack_cwd,
        "stdin": launch.stdin,
        "stdout": launch.stdout,
        "stderr": launch.stderr,
        "append": launch.append,
        "identity": (user.uid, user.gid, list(user.groups)) if user else None,
        "joins": list(joins),
        "session": session_of(launch.session) if launch.session else None,
    }
    return encoded(plan)


def session_of(session: Session) -> dict[str, Any]:
    """An interactive process's streams, as its child and its relay read them."""
    return {"pty": session.pty, "input": session.input, "rows": session.rows, "columns": session.columns}


def encoded(plan: dict[str, Any]) -> bytes:
    """A plan as a child reads it."""
    content = marshal.dumps(plan)
    return NUMBER.pack(len(content)) + content


def failure_of(answer: bytes, launch: Launch) -> StartFailure:
    """Turn a child's failure into a message for users. It names the path and the errno."""
    stage, number, path, text = marshal.loads(answer)  # noqa: S302 - our own helper
    reason = f"{os.strerror(number)} ({errno.errorcode.get(number, number)})" if number else text
    if stage == COMMAND:
        return _not_run(launch.command[0][:NAME_SHOWN] if launch.command else "", number, reason)
    if stage == INTERPRETER:
        message = (
            f"the script's first line names {path[:NAME_SHOWN]}, which does not exist on this node; correct the line,"
            " or install that program there"
        )
        return StartFailure(NOT_FOUND, message)
    if stage == DIRECTORY:
        does_not = "does not exist on this node" if number == errno.ENOENT else f"can't be entered: {reason}"
        message = f"the working directory {launch.cwd} {does_not}; create it, or give another cwd"
    elif stage == FILE:
        message = f"can't open {path}: {reason}; check the path" if path else f"can't open the job's files: {reason}"
    elif stage == GROUP:
        message = f"can't enter the job's control group: {path}: {reason}"
    else:
        message = f"can't change to user '{launch.identity.name if launch.identity else ''}': {reason}"
    return StartFailure(NOT_EXECUTABLE, message)


def _not_run(name: str, number: int, reason: str) -> StartFailure:
    if number in (errno.ENOENT, errno.ENOTDIR) or not name:
        message = f"command '{name}' not found; give its full path, install it on this node, or check its first line"
        return StartFailure(NOT_FOUND, message)
    message = f"command '{name}' can't be executed: {reason}; is it a program with execute permission?"
    return StartFailure(NOT_EXECUTABLE, message)
