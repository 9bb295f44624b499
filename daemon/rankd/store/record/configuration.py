"""Configurations that came into force. The intake records them, and the other services use the newest one.

The texts of the files are recorded. So a service uses what the intake has checked, even if the directory has changed
since.

Statements are text, both for SQLAlchemy's ``exec_driver_sql`` and for ``execute`` of a plain connection. The command
line reads configurations too, and must not import SQLAlchemy (0.6 s; a command starts in under 0.15 s).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from rankd.config.change import Change

Query = Callable[..., Iterable[Any]]
"""Runs a statement with parameters, and returns its rows."""

_COLUMNS = "SELECT id, at, actor, event, directory, changes, files FROM configurations"
_CHANGES = msgspec.json.Decoder(list[Change])
_FILES = msgspec.json.Decoder(dict[str, str])


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that came into force: when (UTC seconds), by whom, and how (``started``, ``reloaded``).

    ``files``: the texts by file name; ``changes``: the differences from the configuration before.
    """

    number: int
    at: float
    actor: str
    event: str
    directory: str
    changes: list[Change]
    files: dict[str, str]


def newest_configuration(query: Query) -> int | None:
    """The number of the newest configuration; None before the first."""
    [(number,)] = query("SELECT max(id) FROM configurations")
    return None if number is None else int(number)


def newest_recorded(query: Query) -> Recorded | None:
    """The newest configuration; None before the first."""
    for row in query(f"{_COLUMNS} ORDER BY id DESC LIMIT 1"):
        return _recorded(row)
    return None


def recorded(query: Query, number: int) -> Recorded | None:
    """The configuration with this number; None if there is none."""
    for row in query(f"{_COLUMNS} WHERE id = ?", (number,)):
        return _recorded(row)
    return None


def recorded_before(query: Query, number: int) -> Recorded | None:
    """The configuration before the one with this number; None if there is none."""
    for row in query(f"{_COLUMNS} WHERE id < ? ORDER BY id DESC LIMIT 1", (number,)):
        return _recorded(row)
    return None


def recorded_for_ranking(query: Query) -> Recorded | None:
    """The configuration of the newest full generation; before the first generation, the newest configuration."""
    full = "SELECT configuration FROM generations WHERE kind = 'full' ORDER BY number DESC LIMIT 1"
    for (number,) in query(full):
        return None if number is None else recorded(query, number)
    return newest_recorded(query)


def latest_recorded(query: Query, limit: int) -> list[Recorded]:
    """The latest configurations, newest first."""
    return [_recorded(row) for row in query(f"{_COLUMNS} ORDER BY id DESC LIMIT ?", (limit,))]


def _recorded(row: Sequence[Any]) -> Recorded:
    number, at, actor, event, directory, changes, files = row
    return Recorded(
        number=number,
        at=at,
        actor=actor,
        event=event,
        directory=directory,
        changes=_CHANGES.decode(changes),
        files=_FILES.decode(files),
    )
