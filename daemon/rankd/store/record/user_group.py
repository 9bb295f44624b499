"""The groups that the intake has read from the head's user database, for commands that decide as the intake would.

Statements are text, both for SQLAlchemy's ``exec_driver_sql`` and for ``execute`` of a plain connection: the command
line reads them (``rankd whatif``), and must not import SQLAlchemy (0.6 s). :mod:`.new_user_group` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from rankd.config.configuration import Configuration
from rankd.core.admission.user_group import Groups, own_groups

Query = Callable[[str], Iterable[Any]]
"""Runs a statement: SQLAlchemy's ``exec_driver_sql``, or ``execute`` of a plain connection."""


def recorded_groups(query: Query) -> dict[str, Groups]:
    """The groups of each user who is in some."""
    rows = query('SELECT "user", "groups" FROM user_groups')
    return {user: msgspec.json.decode(names, type=Groups) for user, names in rows}


def with_recorded_groups(query: Query, configuration: Configuration) -> Configuration:
    """The configuration with the recorded groups of users about whom it says none, if it wants those."""
    if configuration.settings.admission.host_groups == "none":
        return configuration
    own = own_groups(configuration.group_names, configuration.groups)
    host = {user: tuple(name for name in names if name not in own) for user, names in recorded_groups(query).items()}
    return msgspec.structs.replace(configuration, groups={**host, **configuration.groups})
