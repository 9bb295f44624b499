"""Sessions: what a client reads of a job, and writes to it, from anywhere on the bus.

A client asks the intake (``job.log``, ``job.attach``). The intake checks the right, sends the node's agent a
:class:`Grant`, and answers once the agent has confirmed it. From then on client and agent have subjects of their own.
The client sends :class:`Alive` on :func:`~rankd.wire.subject.session_in`, with :func:`~rankd.wire.subject.session_out`
as the subject for replies. The agent sends everything as replies to the last :class:`Alive`: the broker lets nothing
else through from a node to a user. Bytes travel as they are, with the headers below. Everything else is JSON.

Bytes are numbered from the start of their stream. A receiver cuts off what it has, and asks again for what is missing.
So nothing is lost or repeated, whatever ends in between.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rankd.core.errors import Refused
from rankd.wire.answer import ErrorBody
from rankd.wire.job_selection import AtLeastOne, JobName

Stream = Literal["stdout", "stderr"]
"""A job's files."""

STREAM, OFFSET, SIZE = "Rankd-Stream", "Rankd-Offset", "Rankd-Size"
"""Headers of bytes from the agent: their stream, the number of the first one, and how many the stream has now."""
END, STATE = "Rankd-End", "Rankd-State"
"""Headers of the last bytes of a stream: ``true``, and the job's state."""
FIRST = "Rankd-First"
"""A header of the oldest bytes of an interactive process that its node keeps: the number of the first one."""
KIND, CONTROL = "Rankd-Kind", "control"
"""A header of the agent's messages that are JSON."""
COMMAND_NOT_FOUND, NOT_EXECUTABLE = "command_not_found", "not_executable"
"""Errors of a session whose step could not be started."""
STEP_ID = "RANKD_STEP_ID"
"""The variable of a step with its number."""
LOG_EMPTIED = "log_emptied"
"""The error of a session whose file does not have the bytes any more that were sent."""

MESSAGE_BYTES = 256 * 2**10
"""The most bytes of a stream in one message."""
WINDOW_BYTES = 2**20
"""The most bytes that the agent sends beyond those that the client has consumed."""
CONSUMED_BYTES = 256 * 2**10
"""A client says what it has consumed after this many bytes."""
INPUT_MESSAGE_BYTES = 64 * 2**10
INPUT_WINDOW_BYTES = 256 * 2**10
"""The most bytes of input in a message, and the most that the agent has not confirmed."""

RENEW_S = 10.0
"""A client asks again after this time at the latest."""
FORGET_S = 30.0
"""An agent that hears nothing of a client for this long forgets the session."""
GRANTED_S = 120.0
"""How long a grant lasts. So an intake that is away for a while disturbs no session."""
REPLAY_BYTES = 64 * 2**10
"""What a client sees again that attaches to a job."""

NotNegative = Annotated[int, Meta(ge=0, le=2**63 - 1)]
SessionId = Annotated[str, Meta(pattern="^[A-Za-z0-9]{16,64}$")]
"""Chosen by the client, at random: it listens on the session's subject before it asks."""
Screen = Annotated[int, Meta(ge=1, le=65_535)]


class JobLog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Read what a job writes. The same request with the same ``session`` renews it.

    ``offset``: the first byte; when renewing, how many were consumed, which opens the window again. ``again``: bytes
    were lost, send them again from ``offset``. ``limit``: the most bytes. ``tail_lines``, ``tail_bytes``: only the last
    ones, in place of ``offset``. ``follow``: go on until the job has ended. ``node``: one of the job's; by default its
    first one. ``attempt``: from 1; by default the last one.
    """

    id: JobName
    session: SessionId | None = None
    stream: Stream = "stdout"
    offset: NotNegative = 0
    limit: AtLeastOne | None = None
    tail_lines: NotNegative | None = None
    tail_bytes: NotNegative | None = None
    follow: bool = False
    node: str | None = None
    attempt: AtLeastOne | None = None
    again: bool = False


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command in a running job: a shell, or a step. ``env`` is added to the job's; ``cwd``: else the job's.

    ``begins``: start it, if this session has not; a client that renews leaves it out, so that nothing runs twice.
    ``number``: of its step, as the answer for the first task says it; ``task``: which one this is, from 0.
    """

    command: list[str]
    pty: bool = False
    env: dict[str, str] = {}
    cwd: str | None = None
    begins: bool = False
    number: NotNegative | None = None
    task: NotNegative = 0


class JobAttach(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Join the processes of an interactive job, or start one in a running job (``step``).

    ``node``: one of the job's; by default its first one. ``offsets``: how far each stream was consumed, when renewing.
    ``replay_bytes`` not 0: begin with the last bytes that the node keeps, at most 64 KiB. ``stdin``: this client has
    input. ``again``: bytes may be lost, send again from ``offsets``.
    """

    id: JobName
    session: SessionId | None = None
    node: str | None = None
    stdin: bool = False
    offsets: dict[str, NotNegative] = {}
    replay_bytes: Annotated[int, Meta(ge=0, le=REPLAY_BYTES)] = 0
    columns: Screen | None = None
    rows: Screen | None = None
    again: bool = False
    step: Step | None = None


class SessionOpened(msgspec.Struct, frozen=True, kw_only=True):
    """The agent of ``node`` has been asked to send. ``subject``: where its messages come.

    ``nodes``: all of the attempt. ``attempts``: how many the job has had. ``path``: the file on the node. ``state``:
    the job's. ``step``: the number of a step that begins, from 0 in each attempt.
    """

    session: str
    subject: str
    node: str
    nodes: list[str]
    attempt: int
    attempts: int
    state: str
    path: str | None = None
    step: int | None = None


class LogWish(msgspec.Struct, frozen=True, kw_only=True, tag="log"):
    """Send a file. ``path``: as the agent reported it. ``is_last``: no later attempt may have overwritten it.

    ``appends``: the job added to a file that may have been there before.
    """

    stream: Stream
    path: str
    offset: int = 0
    limit: int | None = None
    tail_lines: int | None = None
    tail_bytes: int | None = None
    follow: bool = False
    again: bool = False
    appends: bool = False


class AttachWish(msgspec.Struct, frozen=True, kw_only=True, tag="attach"):
    """Join the job's processes: their streams and, if ``stdin``, their input.

    ``number`` and ``task``: of the step. They are not in ``step``, where older agents would refuse them.
    """

    stdin: bool = False
    offsets: dict[str, int] = {}
    replay_bytes: int = 0
    columns: int | None = None
    rows: int | None = None
    again: bool = False
    step: Step | None = None
    number: int | None = None
    task: int = 0


Wish = LogWish | AttachWish


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The intake lets ``user`` have a session with a job on this node. Agents open sessions for nothing else.

    ``owner``: the job's user, with whose rights its files are read. ``state``: the job's. Times are UTC seconds of the
    intake; an agent counts the time between them from the arrival, since clocks differ.
    """

    user: str
    node: str
    job: int
    attempt: int
    allocation: int
    owner: str
    session: str
    issued_at: float
    expires_at: float
    started_at: float | None
    state: str
    wish: Wish


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """The agent has carried a grant out, or says why not. ``status``: the number of the error."""

    user: str
    session: str
    error: ErrorBody | None = None
    status: int = 200


class Consumed(msgspec.Struct, frozen=True, kw_only=True, tag="consumed"):
    """The client has all bytes of the stream before ``offset``."""

    stream: str
    offset: NotNegative


class Again(msgspec.Struct, frozen=True, kw_only=True, tag="again"):
    """Bytes were lost: send the stream again from ``offset``."""

    stream: str
    offset: NotNegative


class Alive(msgspec.Struct, frozen=True, kw_only=True, tag="alive"):
    """The client is there, and hears what is sent as a reply to this. The agent answers with where each stream is."""


class WindowSize(msgspec.Struct, frozen=True, kw_only=True, tag="window"):
    """The size of the client's terminal."""

    columns: Screen
    rows: Screen


class SendSignal(msgspec.Struct, frozen=True, kw_only=True, tag="signal"):
    """Send this signal to the job's processes."""

    number: Annotated[int, Meta(ge=1, le=64)]


class InputEnd(msgspec.Struct, frozen=True, kw_only=True, tag="input_end"):
    """The input ends after ``offset`` bytes."""

    offset: NotNegative


class Leave(msgspec.Struct, frozen=True, kw_only=True, tag="leave"):
    """The client goes. Nothing more is sent to it."""


FromClient = Consumed | Again | Alive | WindowSize | SendSignal | InputEnd | Leave


class InputTaken(msgspec.Struct, frozen=True, kw_only=True, tag="input_taken"):
    """The job has got the input before ``offset``, and its end if ``end``."""

    offset: int
    end: bool = False


class Exited(msgspec.Struct, frozen=True, kw_only=True, tag="exited"):
    """The processes that the client attached to have ended."""

    exit_status: int | None = None
    signal: int | None = None
    cause: str | None = None


FromNode = InputTaken | Exited


def log_emptied(path: str | None) -> Refused:
    """A file that the job has emptied, or written anew, while it was read."""
    message = f"the job has emptied its file {path or ''} while it was read; read it again from its beginning"
    return Refused(LOG_EMPTIED, message.replace("  ", " "), status=409)
