"""Dead letters, and the number of deleted ones, for ``rankd deadletter list``.

Text, as in all modules beside it: a look runs on the driver's connection, which the command line has too.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import IN_NUMBERS, IN_TEXTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.wire.message import DeadLetterFilter


def letters(connection: Reader, wanted: DeadLetterFilter) -> list[Row]:
    """Rows of the view ``dead_letter``, oldest first; of notifications with the ``job`` and the ``target``."""
    conditions, parameters = ["1 = 1"], list[object]()
    if wanted.ids is not None:
        conditions.append(f"id {IN_NUMBERS}")
        parameters.append(json.dumps(wanted.ids))
    elif not wanted.all:
        conditions.append("state = 'waiting'")
    if wanted.users is not None:
        conditions.append(f'"user" {IN_TEXTS}')
        parameters.append(json.dumps(wanted.users))
    if wanted.after is not None:
        conditions.append("id > ?")
        parameters.append(wanted.after)
    query = f"SELECT * FROM dead_letter WHERE {' AND '.join(conditions)} ORDER BY id LIMIT ?"
    return [row | _address(row) for row in fetch(connection, query, [*parameters, wanted.limit])]


def _address(row: Row) -> Row:
    """The job that a notification is about, and its target; None of other letters, and of one that was cut."""
    found: Row = {}
    if row["kind"] == "notification":
        with suppress(msgspec.DecodeError):
            found = msgspec.json.decode(row["submission"], type=Row)
    content = found.get("content") or {}
    task = {name: content.get(name) for name in ("array_job", "array_task")}
    return {"job": found.get("job"), "target": found.get("target"), **task}


def losses(connection: Reader, users: Sequence[str] | None) -> list[Row]:
    """How many letters of which users were deleted because they had too many; of these users, or of all."""
    where, parameters = ("", []) if users is None else (f' WHERE "user" {IN_TEXTS}', [users])
    query = f'SELECT "user", letters, bytes, at FROM dead_letter_losses{where} ORDER BY at DESC LIMIT 1000'
    return fetch(connection, query, [json.dumps(list(value)) for value in parameters])
