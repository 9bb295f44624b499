"""The process that forks the services of ``rankd up``; :mod:`rankd.services.up.nursery` is the side of ``up``.

``up`` forks it after its own imports, before it has threads, an event loop, connections, or the secrets of its site. It
imports the rest, and then it only forks. So what it forks begins as a new interpreter does, with everything imported.
A forked process waits for what ``up`` says: if ``up`` gives it up, it ends without having done anything.
"""

from __future__ import annotations

import ctypes
import gc
import marshal
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from rankd.plugin.interpreter import python_command, python_environment
from rankd.services.runtime.shown_command import show_command
from rankd.services.up.nursery import FORK, NUMBER, Nursery, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULES = (
    "rankd.cli.services.service_command",
    "rankd.cli.services.agent_command",
    "rankd.services.runtime.watchdog",
    *(
        f"rankd.services.{name}.service"
        for name in ("intake", "prioritizer", "scheduler", "forecaster", "gateway", "agent")
    ),
)
"""What services import when they start. The notifier, which few sites have, imports its own."""

_PR_SET_PDEATHSIG = 1


def begin(modules: Sequence[str] = MODULES) -> Nursery | list[str] | None:
    """Fork the nursery, and return in ``up`` and in each process that the nursery forks.

    In ``up`` it returns the nursery, or None if services have to be executed. In a forked process it returns the
    arguments of ``rankd`` that the process has to run with. Services are executed if PYTHONPATH names the current
    directory: ``up`` may have imported modules from there, and services must not.
    """
    if python_environment(os.environ) != dict(os.environ):
        return None
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    up = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        return None
    if pid == 0:
        return _serve_or_end(up, theirs.detach(), modules)
    theirs.close()
    with suppress(OSError):
        os.setpgid(pid, pid)  # a Ctrl-C before it has done so itself would end it
    return Nursery(pid, ours)


def _serve_or_end(up: int, connection: int, modules: Sequence[str]) -> list[str]:
    """In the nursery. Returns only in processes that it forks, and no error leads back into ``up``."""
    try:
        with socket.socket(fileno=_prepared(up, connection, modules)) as requests:
            if (arguments := serve(requests)) is not None:
                return arguments
    except BaseException:  # noqa: BLE001 - it is all that this process has to say
        sys.excepthook(*sys.exc_info())
    os._exit(1)


def _prepared(up: int, connection: int, modules: Sequence[str]) -> int:
    """Become independent of the terminal, of the files of ``up`` and of its script's directory; import everything."""
    os.setpgid(0, 0)
    _end_with(up, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.closerange(3, connection)
    os.closerange(connection + 1, os.sysconf("SC_OPEN_MAX"))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    if sys.path[0] == os.path.dirname(os.path.realpath(sys.argv[0])):  # noqa: PTH120 - as the interpreter wrote it
        del sys.path[0]
    show_command(python_command("rankd", "up", "(the nursery)"))
    gc.disable()  # searching what is imported takes a twelfth of the time
    for module in modules:
        import_module(module)
    gc.freeze()
    gc.enable()
    return connection


def _end_with(parent: int, number: int) -> None:
    """Ask for a signal when the parent dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before that
        os._exit(1)


def serve(requests: socket.socket) -> list[str] | None:
    """Fork on request. Returns None when ``up`` has gone; in a forked process, the arguments that it gets."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 64, 2)
        if message != FORK:
            return None
        channel, log = descriptors
        plan = _fork(requests, channel)
        if plan is not None:
            return _become(plan, log)
        os.close(channel)
        os.close(log)


def _fork(requests: socket.socket, channel: int) -> Plan | None:
    """Fork twice, and tell ``up`` the pid after the process between has ended: then the child is a child of ``up``.

    Returns the plan in the child, None in the nursery.
    """
    heard, told = os.pipe()
    try:
        between = os.fork()
        if between == 0:
            _fork_and_end(told)
            requests.close()
            os.close(heard)
            os.close(told)
            return _read_plan(channel)
        os.waitpid(between, 0)
        answer = os.read(heard, NUMBER.size)
    except OSError as error:
        answer = NUMBER.pack(-(error.errno or 1))
    with suppress(OSError):  # `up` no longer wants it
        os.write(channel, answer)
    os.close(heard)
    os.close(told)
    return None


def _fork_and_end(told: int) -> None:
    """In the process between: returns only in its child."""
    try:
        pid = os.fork()
    except OSError as error:
        pid = -(error.errno or 1)
    if pid != 0:
        os.write(told, NUMBER.pack(pid))
        os._exit(0)


def _read_plan(channel: int) -> Plan:
    """What ``up`` says that this process becomes; it ends here if ``up`` says nothing."""
    with socket.socket(fileno=channel) as stream, stream.makefile("rb") as file:
        size = file.read(NUMBER.size)
        content = file.read(NUMBER.unpack(size)[0]) if len(size) == NUMBER.size else b""
    if not content:
        os._exit(1)
    return Plan(*marshal.loads(content))  # noqa: S302 - `up` wrote it


def _become(plan: Plan, log: int) -> list[str]:
    """Be the process of this plan; returns its arguments."""
    os.setpgid(0, 0)
    _end_with(plan.parent, plan.orphaned)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.umask(plan.umask)
    os.environ.clear()
    os.environ.update(plan.environment)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    show_command(python_command("rankd", *plan.arguments))
    return list(plan.arguments)
