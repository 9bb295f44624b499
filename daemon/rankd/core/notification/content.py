"""What a notification says: the JSON for programs, and the subject and text for people.

Texts of users are escaped: names of jobs may hold control characters and line ends, which would forge headers of mails.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rankd.core.instant import shown_instant
from rankd.core.model.array import shown_name
from rankd.core.near_name import cut
from rankd.core.printable import printable

LONGEST_SUBJECT = 150
LONGEST_NAME = 80
_WORDS = {
    "start": "started",
    "complete": "completed",
    "fail": "failed",
    "time_out": "reached its time limit",
    "cancel": "was cancelled",
    "lose_node": "lost its node",
    "exceed_memory": "was killed for memory",
    "requeue": "is queued again",
    "idle": "does not use its GPUs",
}


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent to a program. ``id`` is that of the event; ``at`` its time in UTC seconds.

    ``job`` is the array if the array as a whole notifies. ``array_job`` and ``array_task`` are those of a task.
    """

    id: int
    event: str
    job: int
    state: str
    at: float
    user: str
    name: str
    queue: str
    cause: str | None = None
    array_job: int | None = None
    array_task: int | None = None
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    exit_status: int | None = None
    signal: int | None = None
    nodelist: str | None = None


def subject_of(content: Content) -> str:
    """One line of printable characters: ``rankd: job 17 failed (train)``.

    A name can't begin an encoded word of RFC 2047 (``=?utf-8?q?=0d=0aBcc:…?=``): Python's mail library decodes it, and
    older versions write the line ends in it as they are.
    """
    name = cut(printable(content.name).replace("=?", "=\\u003f"), LONGEST_NAME)
    return cut(f"rankd: {_what(content)} {_WORDS.get(content.event, content.event)} ({name})", LONGEST_SUBJECT)


def _what(content: Content) -> str:
    return f"{'job' if content.array_job is None else 'task'} {_name(content)}"


def _name(content: Content) -> str:
    """How people name the job, array or task."""
    return shown_name(content.job, content.array_job, content.array_task, None, None)


def text_of(content: Content) -> str:
    """A few lines of plain text."""
    rows: list[tuple[str, Any]] = [
        ("job", _name(content)),
        ("name", content.name),
        ("user", content.user),
        ("queue", content.queue),
        ("event", content.event),
        ("state", content.state),
        ("cause", content.cause),
        ("exit status", content.exit_status),
        ("signal", content.signal),
        ("nodes", content.nodelist),
        ("submitted", _time(content.submitted_at)),
        ("started", _time(content.started_at)),
        ("ended", _time(content.ended_at)),
    ]
    lines = [f"{label + ':':<13}{cut(printable(str(value)), 1_000)}" for label, value in rows if value is not None]
    return "\n".join([f"{subject_of(content).removeprefix('rankd: ').capitalize()}.", "", *lines, ""])


def _time(at: float | None) -> str | None:
    return None if at is None else shown_instant(at)
