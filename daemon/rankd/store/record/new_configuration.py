"""Records a configuration that has come into force. Reading is :mod:`.configuration`, which the command line shares."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec
from sqlalchemy import insert

from rankd.store.engine.connection import Connection
from rankd.store.record.configuration import Recorded
from rankd.store.schema.table import configurations


def record(connection: Connection, given: Recorded) -> int:
    """Store a configuration and return its number. The field ``number`` of ``given`` is ignored."""
    values = {
        "at": given.at,
        "actor": given.actor,
        "event": given.event,
        "directory": given.directory,
        "digest": digest_of(given.files),
        "files": msgspec.json.encode(given.files, order="sorted").decode(),
        "changes": msgspec.json.encode(given.changes).decode(),
    }
    return int(connection.execute(insert(configurations).values(values).returning(configurations.c.id)).scalar_one())


def digest_of(files: Mapping[str, str]) -> str:
    """The same for the same texts."""
    return sha256(msgspec.json.encode(files, order="sorted")).hexdigest()
