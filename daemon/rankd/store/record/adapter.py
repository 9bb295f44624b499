"""Adapters in the database: how each one's last reading went, and the input that it has in force.

The prioritizer writes; every service lays the inputs over its configuration (:func:`in_force`) when it starts and
when :func:`inputs_revision` has changed. So what was good last outlives a restart and its source.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from rankd.config.adapter import with_inputs
from rankd.config.configuration import Configuration
from rankd.core.adapter.input import Input
from rankd.core.errors import ConfigurationError
from rankd.core.model.setting import AdapterSettings

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = logging.getLogger("rankd.adapter")

Query = Callable[[str], Iterable[Any]]
"""How a statement is run: by SQLAlchemy's ``exec_driver_sql``, or ``execute`` of a plain connection."""

InputsRevision = tuple[tuple[str, str, int, float | None], ...]
"""By adapter: its name, its kind of input, how often that has changed, and when it did last."""

_INPUT = msgspec.json.Decoder(Input)


class StoredInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input in force: whose, what, when its source was last seen to say so (UTC seconds), and its digest."""

    name: str
    input: Input
    read_at: float
    digest: str = ""


class InForce(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as the inputs change it, and these inputs."""

    configuration: Configuration
    inputs: tuple[StoredInput, ...] = ()


def in_force(query: Query, configuration: Configuration) -> InForce:
    """What is in force now. An input that does not fit the configuration any more is left out, and that is logged."""
    return laid_over(configuration, stored_inputs(query, configuration.settings.adapters))


def laid_over(configuration: Configuration, inputs: Iterable[StoredInput], new: str | None = None) -> InForce:
    """The configuration under these inputs, in their order; those that don't fit are left out, but for the ``new`` one.

    Raises:
        ConfigurationError: the new one makes no account tree with those before it.
    """
    used: list[StoredInput] = []
    effective = configuration
    for stored in inputs:
        try:
            effective = with_inputs(configuration, [*(one.input for one in used), stored.input])
        except ConfigurationError as error:
            if stored.name == new:
                raise
            log.warning("the last input of adapter '%s' does not fit the configuration: %s", stored.name, error.message)
        else:
            used.append(stored)
    return InForce(configuration=effective, inputs=tuple(used))


def stored_inputs(query: Query, adapters: Sequence[AdapterSettings]) -> list[StoredInput]:
    """The inputs of these adapters, in their order; none of those that have not given any yet."""
    if not adapters:
        return []
    sql = "SELECT name, input, content, read_at, digest FROM adapters WHERE content IS NOT NULL"
    rows = {(name, kind): rest for name, kind, *rest in query(sql)}
    found = []
    for adapter in adapters:
        row = rows.get((adapter.name, adapter.input))
        if row is not None:
            content, read_at, digest = row
            given = _INPUT.decode(content)
            if given.factor == adapter.factor:
                found.append(StoredInput(name=adapter.name, input=given, read_at=read_at, digest=digest))
    return found


def inputs_revision(query: Query) -> InputsRevision:
    """Another value whenever an input has changed, come or gone, or its names have been brought in later."""
    found = query("SELECT name, input, revision, changed_at FROM adapters ORDER BY name")
    return tuple((name, kind, int(revision), changed_at) for name, kind, revision, changed_at in found)


def names_came(connection: Connection) -> None:
    """The names of the stored inputs have been brought in: whoever follows the inputs looks at the names again."""
    connection.exec_driver_sql("UPDATE adapters SET revision = revision + 1 WHERE content IS NOT NULL")


def register_adapters(connection: Connection, adapters: Sequence[AdapterSettings]) -> None:
    """The configured adapters have a row each, others none; what an adapter of the same kind gave last stays."""
    rows = [(adapter.name, adapter.input, adapter.adapter) for adapter in adapters]
    connection.exec_driver_sql(
        "DELETE FROM adapters WHERE name || ' ' || input NOT IN (SELECT value FROM json_each(?))",
        (json.dumps([f"{name} {kind}" for name, kind, _ in rows]),),
    )
    if rows:
        connection.exec_driver_sql(
            "INSERT INTO adapters (name, input, plugin, state) VALUES (?, ?, ?, 'waiting')"
            " ON CONFLICT (name) DO UPDATE SET plugin = excluded.plugin",
            rows,
        )


def save_reading(connection: Connection, name: str, row_count: int, at: float) -> None:
    """It was read, and is as it was."""
    connection.exec_driver_sql(
        "UPDATE adapters SET state = 'ok', row_count = ?, read_at = ?, tried_at = ?, failures = 0, message = NULL"
        " WHERE name = ?",
        (row_count, at, at, name),
    )


def save_input(connection: Connection, stored: StoredInput) -> None:
    """It was read, and gives something else than before."""
    save_reading(connection, stored.name, len(stored.input), stored.read_at)
    connection.exec_driver_sql(
        "UPDATE adapters SET content = ?, digest = ?, changed_at = ?, revision = revision + 1 WHERE name = ?",
        (msgspec.json.encode(stored.input).decode(), stored.digest, stored.read_at, stored.name),
    )


def save_failure(connection: Connection, name: str, message: str, at: float) -> None:
    """It could not be read; what it gave last stays."""
    connection.exec_driver_sql(
        "UPDATE adapters SET state = 'failing', tried_at = ?, failures = failures + 1, message = ? WHERE name = ?",
        (at, message, name),
    )
