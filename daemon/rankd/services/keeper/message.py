"""The messages between the agent and its keeper: one JSON document per line on a socket in the state directory.

They are tagged structs. Unknown fields of newer versions are ignored, since a keeper may be older than its agent.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from rankd.services.keeper.proc import Launch, Session
from rankd.wire.message import Report

LONGEST_LINE = 16 * 2**20
SOCKET = "keeper.socket"


class JobHooks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What runs before and after a job's processes on this node: paths of programs, their variables, seconds."""

    prolog: str | None = None
    epilog: str | None = None
    environment: dict[str, str] = {}
    timeout_s: float


class KeepJob(msgspec.Struct, frozen=True, kw_only=True, tag="keep"):
    """Start this job and keep it until it ends. Ignored if the allocation was started before."""

    allocation: int
    job: int
    plan: Launch
    time_limit_s: float | None
    grace_s: float
    hooks: JobHooks | None = None


class EndJob(msgspec.Struct, frozen=True, kw_only=True, tag="end"):
    """Send TERM to all of the job's processes, and KILL after the grace time.

    ``hang_up_s``: the seconds between a HUP and TERM; with 0, there is no HUP. The cause is recorded at once, so a job
    that HUP ends has it too.
    """

    allocation: int
    cause: str
    grace_s: float
    hang_up_s: float = 0.0


class SignalJob(msgspec.Struct, frozen=True, kw_only=True, tag="signal"):
    """Send a signal to all of the job's processes, or to those of one step."""

    allocation: int
    number: int
    step: str | None = None


class OrderJob(msgspec.Struct, frozen=True, kw_only=True, tag="order"):
    """Carry out the intake's order with this id for a job, unless it was carried out before; answered by Ordered.

    ``signal``: send it to the job's processes. None: the job has this time limit from now on, counted from its start.
    """

    allocation: int
    order: int
    signal: int | None = None
    time_limit_s: float | None = None


class StartStep(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """Start a process in a running job, as its user and in its control group. ``environment``: added to the job's.

    ``number`` and ``task``: under which it is recorded; they come back with its end. None: it is not recorded.
    """

    allocation: int
    step: str
    command: list[str]
    session: Session
    environment: dict[str, str] = {}
    cwd: str | None = None
    number: int | None = None
    task: int = 0


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag="ping"):
    """Asks for a :class:`Pong`. Only for a keeper whose :class:`Hello` has ``pongs``."""


class StepHappened(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """A step's start or end. ``message``: why it could not be started. ``at``: the time of an end, in UTC seconds.

    ``number`` and ``task``: as in :class:`StartStep`. Keepers of older versions leave them and the time out.
    """

    allocation: int
    step: str
    kind: Literal["started", "ended"]
    exit_status: int | None = None
    signal: int | None = None
    message: str | None = None
    at: float | None = None
    number: int | None = None
    task: int = 0


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """The keeper's first message: the jobs that it holds, ends that it could not write down, and what it can limit."""

    pid: int
    running: list[int]
    started: list[Report]
    unwritten: list[Report]
    limits: str
    pongs: bool = False
    """Whether it answers a :class:`Ping`. Keepers of older versions do not."""
    confines: bool = False
    """Whether it keeps jobs from devices that are not theirs. Keepers of older versions do not."""
    sessions: bool = False
    """Whether it knows sessions, steps and signals. Keepers of older versions do not."""
    hooks: bool = False
    """Whether it runs prologs and epilogs. Keepers of older versions do not."""
    orders: bool = False
    """Whether it carries out orders for running jobs. Keepers of older versions do not."""
    ended_steps: list[StepHappened] = []
    """Ends of recorded steps, the newest last: the agent may not have reported them before it was killed."""
    confinement: str = "jobs are NOT kept from devices of other jobs (their keeper is of an older version)"


class Happened(msgspec.Struct, frozen=True, kw_only=True, tag="happened"):
    """A start or an end. An end is already in the state directory."""

    report: Report


class Ordered(msgspec.Struct, frozen=True, kw_only=True, tag="ordered"):
    """An order is carried out, or its job does not run here any more."""

    order: int


class Pong(msgspec.Struct, frozen=True, kw_only=True, tag="pong"):
    """The answer to a :class:`Ping`."""


Ask = KeepJob | EndJob | SignalJob | OrderJob | StartStep | Ping
Tell = Hello | Happened | StepHappened | Ordered | Pong

_encoder = msgspec.json.Encoder()
read_ask = msgspec.json.Decoder(Ask).decode
read_tell = msgspec.json.Decoder(Tell).decode


def end_of(order: StartStep, at: float, message: str | None = None) -> StepHappened:
    """The end of a step. With a message: it could not be started."""
    return StepHappened(
        allocation=order.allocation,
        step=order.step,
        kind="ended",
        message=message,
        at=at,
        number=order.number,
        task=order.task,
    )


def line(message: msgspec.Struct) -> bytes:
    """A message as a line for the socket: encoded JSON contains no line break."""
    return _encoder.encode(message) + b"\n"
