"""The client's side of ``login.sock``: requests, and credentials, as the user who runs this process.

A request imports neither NATS, nor asyncio, nor msgspec, so that a command that asks here starts fast. The messages are
those of :mod:`rankd.wire.login`, which the gateway decodes and encodes.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.wire.login_size import MOST_ANSWER_BYTES

if TYPE_CHECKING:
    from rankd.wire.login import Login

TIMEOUT_S = 6.0
AGAIN_S = 0.02
MOST_LINE_BYTES = 64 * 2**10
PART_BYTES = 2**20
UNNAMED_STATUS = 403
"""The status of a refusal that names none."""


class LoginName(NamedTuple):
    """Under which name a user asks here, and the broker behind it."""

    user: str
    nats: str


class Answer(NamedTuple):
    """The answer to a request; ``status`` of an error, as on the bus."""

    payload: bytes
    status: str | None


@lru_cache(maxsize=1)
def log_in(path: Path) -> Login:
    """Credentials of the user who runs this process; asked for once.

    Raises:
        Refused: the gateway's reason.
        Unavailable: ``no_gateway``: nobody answers there.
    """
    return log_in_again(path)


def log_in_again(path: Path) -> Login:
    """Ask for credentials of the user who runs this process.

    Raises:
        Refused: the gateway's reason.
        Unavailable: ``no_gateway``: nobody answers there.
    """
    found = _answered(path, _exchange(path, {"want": "credentials"})[0])
    import msgspec  # noqa: PLC0415 - slow, and only credentials need it

    from rankd.wire.login import Login  # noqa: PLC0415 - as msgspec

    try:
        return msgspec.convert(found, Login)
    except msgspec.ValidationError as error:
        raise _not_rankds(path, str(error)) from None


@lru_cache(maxsize=1)
def name_at(path: Path) -> LoginName:
    """Under which name the user who runs this process asks there; asked for once.

    Raises:
        Refused: the gateway's reason.
        Unavailable: ``no_gateway``: nobody answers there.
    """
    found = _answered(path, _exchange(path, {"want": "name"})[0])
    return LoginName(_text(path, found, "user"), _text(path, found, "nats"))


def ask_at(path: Path, verb: str, payload: bytes, *, key: str | None = None, timeout_s: float = TIMEOUT_S) -> Answer:
    """The answer to a request of the user who runs this process. ``key``: a repeated one has the same outcome.

    Raises:
        Refused: the gateway's reason.
        Unavailable: ``no_gateway``: nobody answers there; ``no_answer``: not in time; the gateway's reason.
    """
    asked = {"want": "answer", "verb": verb, "size": len(payload)} | ({} if key is None else {"key": key})
    return answer_in(path, *_exchange(path, asked, payload, timeout_s))


def asking(verb: str, payload: bytes) -> bytes:
    """The line that announces a request. The payload comes behind it."""
    return _line({"want": "answer", "verb": verb, "size": len(payload)})


def _line(asked: dict[str, Any]) -> bytes:
    return json.dumps(asked, ensure_ascii=False).encode() + b"\n"


def answer_in(path: Path, line: bytes, rest: bytes) -> Answer:
    """The answer in a line and the bytes behind it.

    Raises:
        Refused, Unavailable: as :func:`ask_at`.
    """
    found = _answered(path, line)
    size, status = _field(path, found, "size", int), _field(path, found, "status", str, type(None))
    if len(rest) != size:
        raise _not_rankds(path, f"its answer ends after {len(rest)} of {size} bytes")
    return Answer(rest, status)


def _answered(path: Path, line: bytes) -> dict[str, Any]:
    """The fields of the line.

    Raises:
        Refused, Unavailable: it is a refusal, or nothing of rankd's.
    """
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise _not_rankds(path, str(error)) from None
    if not isinstance(found, dict):
        raise _not_rankds(path, "its answer is not an object")
    if "code" not in found:
        return found
    code, message = _text(path, found, "code"), _text(path, found, "message")
    status = _field(path, {"status": UNNAMED_STATUS} | found, "status", int)
    refusal: type[RankdError] = Unavailable if status in (429, 503) else Refused
    raise refusal(code, message, _field(path, found, "field", str, type(None)), status=status)


def _text(path: Path, found: dict[str, Any], name: str) -> str:
    return str(_field(path, found, name, str))


def _field(path: Path, found: dict[str, Any], name: str, *types: type) -> Any:  # noqa: ANN401 - of one of the types
    """A field of the answer. A missing one is None."""
    value = found.get(name)
    if type(value) not in types:  # a bool is no number here
        raise _not_rankds(path, f"the field '{name}' of its answer is {value!r:.80}")
    return value


def _not_rankds(path: Path, why: str) -> Unavailable:
    return Unavailable("no_gateway", f"what answers at {path} is not rankd's gateway: {why}")


def _exchange(
    path: Path, asked: dict[str, Any], payload: bytes = b"", timeout_s: float = TIMEOUT_S
) -> tuple[bytes, bytes]:
    """Send a line and the bytes behind it; returns the line of the answer and the bytes behind that."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(timeout_s)
            with short_path(path) as short:
                _connect(connection, short, timeout_s)
            with suppress(BrokenPipeError, ConnectionResetError):  # it has refused the first line, and says why
                connection.sendall(_line(asked) + payload)
            return _received(connection)
    except OSError as error:
        raise refusal_of_socket(path, asked.get("verb") or asked["want"], timeout_s, error) from None


def refusal_of_socket(path: Path, what: str, timeout_s: float, error: OSError) -> Unavailable:
    """What it means that ``what`` was not answered at a socket. ``error``: the system's."""
    if isinstance(error, BlockingIOError):
        return Unavailable("busy", f"too many processes ask at {path} at this moment; try again in a second")
    if isinstance(error, TimeoutError):
        message = f"no answer to '{what}' at {path} within {timeout_s:.3g} s; is rankd running?"
        return Unavailable("no_answer", message)
    message = f"nobody answers at {path} ({error.strerror or error}); is `rankd up` or the agent running?"
    return Unavailable("no_gateway", message)


def _connect(connection: socket.socket, path: str, timeout_s: float) -> None:
    """Connect; again while the gateway's queue is full, since the kernel does not wait for room in it.

    Raises:
        OSError: nobody listens there, or the queue was full for ``timeout_s``.
    """
    until = time.monotonic() + timeout_s
    while True:
        try:
            connection.connect(path)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
            time.sleep(AGAIN_S)
        else:
            return


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """The path of a socket through an open directory: the kernel takes only 107 bytes, and directories are longer.

    Raises:
        OSError: there is no such directory.
    """
    directory = os.open(path.absolute().parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def _received(connection: socket.socket) -> tuple[bytes, bytes]:
    """What comes until the other side closes: the first line, and the bytes behind it.

    A gateway that refuses a request before it has read all of it resets the connection after its answer.
    """
    parts, size, has_line = list[bytes](), 0, False
    while part := _part(connection, has_line=has_line):
        parts.append(part)
        size, has_line = size + len(part), has_line or b"\n" in part
        if size > (MOST_ANSWER_BYTES if has_line else MOST_LINE_BYTES):
            break
    line, _, rest = b"".join(parts).partition(b"\n")
    return line, rest


def _part(connection: socket.socket, *, has_line: bool) -> bytes:
    try:
        return connection.recv(PART_BYTES)
    except ConnectionResetError:
        if not has_line:
            raise
        return b""
