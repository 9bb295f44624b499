"""Messages about configurations: the verb ``config.reload``, and the event of one that came into force."""

from __future__ import annotations

import msgspec


class Reload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request to read the files again."""


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration that is in force now.

    ``is_new``: whether it differs from the one before. ``changes``: the first of ``n_changes`` lines.
    """

    number: int
    is_new: bool
    n_changes: int = 0
    changes: list[str] = []
    warnings: list[str] = []


class ConfigurationChange(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration came into force: its number, who caused it, and how (``started``, ``reloaded``).

    ``changes``: the first of ``n_changes`` lines.
    """

    id: int
    event: str
    at: float
    actor: str
    n_changes: int
    changes: list[str]


class ConfigurationEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Several changes in one publication, oldest first."""

    events: list[ConfigurationChange]
