"""The process of one factor of another package: ``python -m rankd.plugin.worker DESCRIPTOR``.

It receives contexts on its socket and answers with values, until the socket is closed. It has a memory limit, and an
alarm for each answer that works even if plugin code never returns. It prints nothing, and it ends with its parent.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import mmap
import os
import resource
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from traceback import extract_tb
from typing import Any

import msgspec
import numpy as np

from rankd.core.errors import ConfigurationError, FactorError, Unavailable
from rankd.core.model.quantity import Resources
from rankd.core.ranking.columns import FloatArray, JobColumns
from rankd.core.ranking.factor import SQL_NAMES, Factor, FactorContext, Groups, Per, evaluate
from rankd.core.ranking.name import Names
from rankd.plugin.block import read_columns
from rankd.plugin.frame import Frame, receive, send
from rankd.plugin.message import Answer, Ask, GroupArrays, Hello, Start

_PR_SET_PDEATHSIG = 1
_LONGEST_MESSAGE = 500
_RANKD = str(Path(__file__).parents[1])
_MOST = 2**40


def main() -> None:
    """Serve until the service closes the socket."""
    own = os.getpid()
    connection = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(connection.fileno(), False)
    try:
        start = msgspec.msgpack.decode(receive(connection, 0).header, type=Start)
        _confine(connection, start)
        factor, hello = _loaded(start)
        send(connection, msgspec.msgpack.encode(hello))
        if factor is not None:
            _Server(connection, factor).run()
    except (Unavailable, OSError):  # the service has ended
        if os.getpid() == own:  # not in a fork of the plugin that returned here
            os.killpg(0, signal.SIGKILL)


def _confine(connection: socket.socket, start: Start) -> None:
    """Set limits. A child that the plugin forks has no part in the connection, and ends with its parent."""
    _end_with_parent()
    limit, most = start.settings.plugins.memory_bytes, resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.register_at_fork(after_in_child=connection.close)
    os.register_at_fork(after_in_child=_end_with_parent)
    sys.path[:] = start.path


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _loaded(start: Start) -> tuple[Factor | None, Hello]:
    signal.setitimer(signal.ITIMER_REAL, start.time_limit_s)
    try:
        module, _, attribute = start.entry.partition(":")
        kind = attrgetter(attribute)(importlib.import_module(module))
        factor = build(kind, start)
        return factor, described(factor)
    except ConfigurationError as error:
        return None, Hello(error=cut(error.message))
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit too
        return None, Hello(error=f"{start.entry} can't be used: {told(error)}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def build(kind: Any, start: Start) -> Factor:  # noqa: ANN401 - what a plugin is, the protocol says
    """Build the factor.

    Raises:
        ValueError: it is not a factor, or not the one of this name.
    """
    takes = getattr(kind, "takes", None)
    if takes and not start.argument:
        raise ValueError(f"'{start.name}' needs {takes} after a dot: {start.name}.NAME")
    if start.argument and not takes:
        raise ValueError(f"it allows nothing after a dot; write '{start.name.partition('.')[0]}'")
    factor = kind(start.settings, start.argument) if takes else kind(start.settings)
    if not isinstance(factor, Factor) or factor.name != start.name:
        raise ValueError(f"it does not implement rankd.core.ranking.factor.Factor as '{start.name}'")
    return factor


def described(factor: Factor) -> Hello:
    """The factor's properties, checked.

    Raises:
        ValueError: they are not valid.
    """
    hello = Hello(
        per=Per(factor.per),
        lowest=float(factor.lowest),
        highest=float(factor.highest),
        is_given=bool(getattr(factor, "is_given", False)),
        sql=factor.sql() if factor.per == Per.JOB else None,
        parameters={str(name): float(value) for name, value in factor.parameters().items()},
    )
    if not (math.isfinite(hello.lowest) and math.isfinite(hello.highest) and hello.lowest < hello.highest):
        raise ValueError(f"[{hello.lowest}, {hello.highest}] is not a range of values")
    if not all(map(math.isfinite, hello.parameters.values())):
        raise ValueError(f"a parameter is not a finite number: {hello.parameters}")
    if hello.sql is not None:
        _check_formula(hello.sql, hello.parameters)
    return hello


def _check_formula(sql: str, parameters: Any) -> None:  # noqa: ANN401 - a plugin's
    """Check that SQLite accepts the formula.

    Raises:
        ValueError: it does not, or the formula uses an unknown name.
    """
    names = {*SQL_NAMES, *parameters}
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"SELECT {sql.format_map({name: f':{name}' for name in names})}", dict.fromkeys(names, 1.0))
    except (sqlite3.Error, LookupError) as error:
        raise ValueError(f"its formula in SQL can't be used: {type(error).__name__}: {error}") from error
    finally:
        connection.close()


class _Server:
    """Answers one ask after the other. Remembers the parts that are not sent again."""

    def __init__(self, connection: socket.socket, factor: Factor) -> None:
        self._connection = connection
        self._factor = factor
        self._pid = os.getpid()
        self._arrays: GroupArrays | None = None
        self._names = Names()
        self._shapes: list[Resources] = []
        self._groups: Groups | None = None

    def run(self) -> None:
        while True:
            frame = receive(self._connection, _MOST)
            ask = msgspec.msgpack.decode(frame.header, type=Ask)
            begun = time.perf_counter()
            groups = self._remembered(ask)
            signal.setitimer(signal.ITIMER_REAL, ask.time_limit_s)
            values, error = self._values(ask, groups, frame)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if os.getpid() != self._pid:  # in a fork of the plugin that returned here
                os._exit(1)
            answer = Answer(number=ask.number, took_s=time.perf_counter() - begun, error=told(error) if error else "")
            payload = np.ascontiguousarray(values).view(np.uint8).data if len(values) else b""
            send(self._connection, msgspec.msgpack.encode(answer), payload)
            if isinstance(error, MemoryError) or (error and isinstance(error.__cause__, MemoryError)):
                return

    def _remembered(self, ask: Ask) -> Groups:
        changed = self._groups is None
        if ask.groups is not None:
            self._arrays, changed = ask.groups, True
        if ask.names is not None:
            self._names, changed = ask.names, True
        if len(self._shapes) != ask.shapes_kept or ask.shapes:
            self._shapes, changed = [*self._shapes[: ask.shapes_kept], *ask.shapes], True
        if changed or self._groups is None:
            assert self._arrays is not None  # noqa: S101 - the first ask brings them
            self._groups = self._arrays.groups(self._names, self._shapes)
        return self._groups

    def _values(self, ask: Ask, groups: Groups, frame: Frame) -> tuple[FloatArray, BaseException | None]:
        content: mmap.mmap | bytearray = frame.payload
        if frame.descriptor is not None:
            content = mmap.mmap(frame.descriptor, 0, access=mmap.ACCESS_READ)
            os.close(frame.descriptor)
        jobs = read_columns(content, ask.n_jobs)
        try:
            return self._evaluated(ask.now, jobs, groups), None
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit too
            return np.empty(0), error

    def _evaluated(self, now: float, jobs: JobColumns, groups: Groups) -> FloatArray:
        return evaluate(self._factor, FactorContext(now=now, jobs=jobs, groups=groups))


def told(error: BaseException) -> str:
    """What went wrong, and where in the plugin, as a message."""
    if isinstance(error, FactorError):
        cause = error.__cause__
        return told(cause) if cause is not None else cut(error.message.removeprefix(f"factor '{error.factor}': "))
    return cut(f"raised {type(error).__name__}{_worded(error)}{_placed(error)}")


def _worded(error: BaseException) -> str:
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - a plugin's exception
        return ""
    return f": {words}" if words else ""


def _placed(error: BaseException) -> str:
    frames: Sequence[Any] = extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_RANKD)]
    return f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def cut(text: str) -> str:
    """The text, cut to its longest length."""
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


if __name__ == "__main__":
    main()
