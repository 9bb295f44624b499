"""The prioritizer's records of adapters: their names, and the result of each one's last reading."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import delete, tuple_, update

from rankd.core.model.setting import AdapterSettings
from rankd.store.engine.connection import Connection
from rankd.store.engine.upsert import upsert
from rankd.store.record.adapter import StoredInput
from rankd.store.record.catalog_version import raise_version
from rankd.store.schema.table import adapters

_OF = adapters.c


def names_came(connection: Connection) -> None:
    """Note that the names of the stored inputs were written, so that services that follow the inputs read them."""
    connection.execute(update(adapters).where(_OF.content.is_not(None)).values(revision=_OF.revision + 1))
    raise_version(connection)


def register_adapters(connection: Connection, configured: Sequence[AdapterSettings]) -> None:
    """Write a row for each configured adapter and delete the others. An adapter of the same kind keeps its input."""
    kept = [(adapter.name, adapter.input) for adapter in configured]
    connection.execute(delete(adapters).where(tuple_(_OF.name, _OF.input).not_in(kept)))
    rows = [
        {"name": adapter.name, "input": adapter.input, "plugin": adapter.adapter, "state": "waiting"}
        for adapter in configured
    ]
    upsert(connection, adapters, ["name"], rows, kept=("input", "state"))
    raise_version(connection)


def save_reading(connection: Connection, name: str, row_count: int, at: float) -> None:
    """Record that the adapter was read and its input has not changed."""
    read = {"state": "ok", "row_count": row_count, "read_at": at, "tried_at": at, "failures": 0, "message": None}
    connection.execute(update(adapters).where(_OF.name == name).values(read))


def save_input(connection: Connection, stored: StoredInput) -> None:
    """Record that the adapter was read, with its new input."""
    save_reading(connection, stored.name, len(stored.input), stored.read_at)
    given = {
        "content": msgspec.json.encode(stored.input).decode(),
        "digest": stored.digest,
        "changed_at": stored.read_at,
        "revision": _OF.revision + 1,
    }
    connection.execute(update(adapters).where(_OF.name == stored.name).values(given))
    raise_version(connection)


def save_failure(connection: Connection, name: str, message: str, at: float) -> None:
    """Record that the adapter could not be read. Its last input stays."""
    failed = {"state": "failing", "tried_at": at, "failures": _OF.failures + 1, "message": message}
    connection.execute(update(adapters).where(_OF.name == name).values(failed))
