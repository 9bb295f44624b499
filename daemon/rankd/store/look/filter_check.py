"""Whether the names in a filter exist. A misspelt queue is an error, not an empty list.

SQL is text: the command line uses this module without importing SQLAlchemy (0.6 s; a command starts in 0.15 s).
"""

from __future__ import annotations

import pwd
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.job import State
from rankd.core.model.queue_path import full_path
from rankd.core.near_name import MOST_COMPARED, near_name
from rankd.store.engine.reading import fetch
from rankd.store.engine.word import TEXTS, listed
from rankd.wire.request_size import check_request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankd.store.engine.reading import Reader
    from rankd.wire.message import JobFilter

_KNOWN = (
    ("users", "user", 'SELECT "user" AS name FROM associations WHERE "user" <> \'\''),
    ("accounts", "account", "SELECT DISTINCT account AS name FROM associations"),
    ("queues", "queue", "SELECT path AS name FROM queues"),
    ("partitions", "partition", "SELECT partition AS name FROM queues UNION SELECT partition FROM nodes"),
    ("qos", "QoS", "SELECT name FROM qos"),
)
"""Fields of a filter, what their values name, and the query for the known names."""


_STATES = frozenset(state.value for state in State)


def check_filter(connection: Reader, wanted: JobFilter, me: str | None = None) -> None:
    """Check that the users, accounts, queues, partitions, QoS and states of a filter exist.

    ``me``: the user who asks. This name, and the name of every user of this machine, is valid before its first job.

    Raises:
        Refused: ``unknown_user``, ``unknown_account``, ``unknown_queue``, ``unknown_partition``, ``unknown_qos``,
            ``unknown_state``, with a similar known name; ``too_many``, ``too_long``.
    """
    check_request(wanted)
    for field, what, query in _KNOWN:
        if given := getattr(wanted, field):
            written = {full_path(name): name for name in given} if field == "queues" else {}
            for missing in _missing(connection, written or given, query):
                name = written.get(missing, missing)
                if field != "users" or (name != me and not _is_user(name)):
                    raise _unknown(what, name, (row["name"] for row in fetch(connection, query)))
    for state in wanted.states or ():
        if state not in _STATES:
            raise _unknown("state", state, _STATES)


def _missing(connection: Reader, names: Iterable[str], query: str) -> list[str]:
    known = f"SELECT lower(name) FROM ({query}) q"
    sql = f"SELECT DISTINCT value AS name FROM {listed(TEXTS)} WHERE lower(value) NOT IN ({known})"
    return [str(row["name"]) for row in fetch(connection, sql, [msgspec.json.encode(list(names)).decode()])]


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True


def _unknown(what: str, name: str, known: Iterable[str]) -> Refused:
    """The error for an unknown name. It does not list the known names, because there may be very many users."""
    near = near_name(name, islice(known, 100 * MOST_COMPARED))
    message = f"there is no {what} '{name[:100]}'" + (f"; did you mean '{near}'?" if near else "")
    return Refused(f"unknown_{what.lower()}", message, "filter", status=404)
