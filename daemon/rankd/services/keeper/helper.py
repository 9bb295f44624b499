"""The keeper's helper: forks the process of each job, and waits for its end when the keeper asks.

This is a script that is started isolated (``python -I -S helper.py DESCRIPTOR [ends]``) with an empty environment. It
imports little, so forking it costs a fifth of forking the keeper. The helper itself never changes its identity, opens
no user's file and reads no user's text. Each child does so for its own job, after it has dropped its rights.

DESCRIPTOR is a SOCK_SEQPACKET socket. On it the helper receives ``fork`` with one end of a stream socket, the job's
channel. Or it receives a decimal pid, and answers with the marshalled result of :func:`os.wait4`. On the channel, the
helper writes the child's pid as an int64, or minus an errno. The child then reads its
:class:`~rankd.services.keeper.spawn.Plan` (its length as an int64, then marshalled). If the command has replaced the
child, the stream just ends; otherwise the child answers with marshalled (stage, errno, path, text). If the keeper
ends first, the child ends without having done anything. The child of an interactive job sends the other ends of its
streams on the channel before. A plan may also tell a child to be a relay (:mod:`rankd.services.keeper.relay`).

Children outlive the helper, since an agent takes them over. With ``ends`` they end with the helper.
"""

from __future__ import annotations

import errno
import marshal
import os
import signal
import socket
import struct
import sys
import warnings  # noqa: F401 - os.execvpe imports it, and a child that has dropped its rights may not read its file

sys.path.append(__file__.rpartition("/rankd/")[0])  # isolated, it finds no packages

from rankd.services.keeper import relay
from rankd.services.keeper.terminal import open_streams

TYPE_CHECKING = False  # typing makes this process larger, and each of its forks a tenth slower
if TYPE_CHECKING:
    from typing import Any

FORK = b"fork"
NUMBER = struct.Struct("<q")
GROUP, RIGHTS, DIRECTORY, FILE, COMMAND = "group", "rights", "directory", "file", "command"
"""Stages in the order in which a child passes them."""
INTERPRETER = "interpreter"
"""The stage of a script whose interpreter does not exist."""
TASK_PID = "SLURM_TASK_PID"
"""A variable that holds the process's own id, if the job has it."""
LONGEST_FIRST_LINE = 256
"""As in Linux: execve(2)."""

LATER = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
IGNORED = {signal.SIGPIPE, signal.SIGXFSZ}
"""The helper itself ignores these, as Python does: a failed write raises an error. A job gets the default action."""
UNCHANGEABLE = {signal.SIGKILL, signal.SIGSTOP}
NEW_DIRECTORY, NEW_FILE, USERS_UMASK = 0o700, 0o666, 0o022
MYSELF = b"0"
ENDS = "ends"
"""The argument of a helper that kills its children when its keeper has ended."""


def serve(keeper: socket.socket, *, ends_children: bool = False) -> None:
    """Carry out the keeper's requests until it has ended."""
    null = os.open(os.devnull, os.O_RDWR)
    children: set[int] = set()
    while True:
        message, descriptors, _, _ = socket.recv_fds(keeper, 64, 1)
        if message == FORK:
            os.set_inheritable(descriptors[0], False)
            if (pid := _fork(descriptors[0], null)) > 0:
                children.add(pid)
        elif message:
            children.discard(int(message))
            keeper.send(marshal.dumps(_wait(int(message))))
        else:
            break
    if ends_children:
        _kill(children)


def _kill(children: set[int]) -> None:
    """Kill these children and their groups. None was waited for, so no other process has their ids."""
    for pid in children:
        for kill in (os.killpg, os.kill):  # one that has just been forked has no group of its own yet
            try:
                kill(pid, signal.SIGKILL)
            except OSError:
                continue


def _fork(channel: int, null: int) -> int:
    try:
        pid = os.fork()
    except OSError as error:
        pid = -(error.errno or 1)
    if pid == 0:
        try:
            _become_job(channel, null)
        finally:
            os._exit(127)
    try:
        os.write(channel, NUMBER.pack(pid))
    except OSError:  # the keeper no longer wants this child, and will not ask for its end
        if pid > 0:
            _wait(pid)
            pid = -1
    os.close(channel)
    return pid


def _wait(pid: int) -> tuple[int, int, float]:
    """The status, the peak memory in bytes, and the processor seconds of a child that has ended or is about to."""
    _, status, usage = os.wait4(pid, 0)
    return status, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime


def _become_job(channel: int, null: int) -> None:
    """In the child: become the job, or report the stage at which that failed."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    at = [GROUP]
    try:
        plan = _read_plan(channel)
        if "relay" in plan:
            _become_relay(channel, plan)
        else:
            _carry_out(plan, at, channel)
    except BaseException as error:  # noqa: BLE001 - the keeper gets every error
        number, path = (error.errno or 0, error.filename) if isinstance(error, OSError) else (0, None)
        text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        os.write(channel, marshal.dumps((at[0], number, str(path or ""), text[:1000])))


def _read_plan(channel: int) -> dict[str, Any]:
    length = NUMBER.unpack(_read(channel, NUMBER.size))[0]
    plan: dict[str, Any] = marshal.loads(_read(channel, length))  # noqa: S302 - the keeper wrote it
    return plan


def _read(channel: int, length: int) -> bytes:
    parts = []
    while length:
        part = os.read(channel, min(length, 2**20))
        if not part:
            os._exit(1)
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _become_relay(channel: int, plan: dict[str, Any]) -> None:
    """In the child: carry the streams of an interactive process, with the rights of its user."""
    _drop_rights(plan["identity"])
    os.chdir("/")
    relay.serve(socket.socket(fileno=channel), plan["relay"])
    os._exit(0)


def _carry_out(plan: dict[str, Any], at: list[str], channel: int) -> None:
    for file in plan["joins"]:
        _join(file)
    at[0] = RIGHTS
    _drop_rights(plan["identity"])
    at[0] = DIRECTORY
    try:
        os.chdir(plan["cwd"])
    except FileNotFoundError:
        if not plan["may_lack_cwd"]:
            raise
        os.chdir("/")
    at[0] = FILE
    _redirect(plan, channel)
    at[0] = COMMAND
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    if not plan["command"]:
        raise FileNotFoundError
    if TASK_PID in plan["environment"]:
        plan["environment"][TASK_PID] = str(os.getpid())
    try:
        os.execvpe(plan["command"][0], plan["command"], plan["environment"])  # noqa: S606 - what an agent is for
    except FileNotFoundError:
        missing = _interpreter(plan["command"][0])
        if missing is None:
            raise
        at[0] = INTERPRETER
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), missing) from None


def _interpreter(script: str) -> str | None:
    """The program that the first line of a script names; None if there is no such script."""
    try:
        descriptor = os.open(script, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        first, _, _ = os.read(descriptor, LONGEST_FIRST_LINE).partition(b"\n")
        os.close(descriptor)
    except OSError:
        return None
    words = first.removeprefix(b"#!").split() if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else None


def _join(file: str) -> None:
    """Enter a control group."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        os.write(descriptor, MYSELF)
        os.close(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, file) from None


def _drop_rights(identity: tuple[int, int, list[int]] | None) -> None:
    if identity is None:
        return
    uid, gid, groups = identity
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    os.umask(USERS_UMASK)


def _redirect(plan: dict[str, Any], channel: int) -> None:
    """Open the job's files, with its own rights, as its descriptors 0 to 2.

    An interactive process gets pipes or a terminal instead. Their other ends and the files go to the keeper.
    """
    write = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if plan["append"] else os.O_TRUNC)
    stdin = _open(plan["stdin"] or os.devnull, os.O_RDONLY)
    stdout = _open_output(plan["stdout"], write)
    stderr = stdout if plan["stderr"] == plan["stdout"] else _open_output(plan["stderr"], write)
    if plan["session"] is not None:
        stdin, stdout, stderr = open_streams(plan["session"], (stdin, stdout, stderr), channel)
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)


def _open_output(path: str, flags: int) -> int:
    try:
        return _open(path, flags)
    except FileNotFoundError:
        _make_directories(os.path.dirname(path))  # noqa: PTH120 - pathlib is not imported here
        return _open(path, flags)


def _open(path: str, flags: int) -> int:
    """Open a file. Never waits for the other end of a pipe, and makes no terminal the session's own."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, NEW_FILE)
    os.set_blocking(descriptor, True)
    return descriptor


def _make_directories(path: str) -> None:
    """Make the directory and all missing ones above it; only their owner may enter them."""
    missing = []
    while path:
        try:
            os.mkdir(path, NEW_DIRECTORY)  # noqa: PTH102 - pathlib is not imported here
            break
        except FileExistsError:
            break
        except FileNotFoundError:
            missing.append(path)
            path = os.path.dirname(path)  # noqa: PTH120
    for directory in reversed(missing):
        try:
            os.mkdir(directory, NEW_DIRECTORY)  # noqa: PTH102
        except FileExistsError:  # another job of the same user has just made it
            continue


def _default_signals() -> None:
    """Give every signal its default action, even those that the process which started the agent ignored.

    A forked child inherits these, and a command inherits what its process ignores. A shell starts a command with ``&``
    so that it ignores SIGINT and SIGQUIT. An ignored SIGCHLD would also keep :func:`os.wait4` from finding a child.
    """
    for number in signal.valid_signals() - UNCHANGEABLE - IGNORED:
        try:
            signal.signal(number, signal.SIG_DFL)
        except OSError:  # the C library permits no changes of its own signals
            continue


def main(descriptor: int, *options: str) -> None:
    """Serve until the keeper ends. Signals reach the keeper's children, not the helper."""
    _default_signals()
    signal.pthread_sigmask(signal.SIG_SETMASK, LATER)
    keeper = socket.socket(fileno=descriptor)
    keeper.set_inheritable(False)
    serve(keeper, ends_children=ENDS in options)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
