"""Requests about priority classes: all users may list and show them, administrators create, update and delete them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec

from rankd.bus.endpoint import Reply, UserHandler, Verb
from rankd.core.admission.class_check import Access, read_class, split_access
from rankd.core.admission.priority_class import ClassTable
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.access import AccessList
from rankd.core.model.priority_class import PriorityClass
from rankd.store.engine.connection import Connection
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.record.priority_class import change_classes, read_access, write_access
from rankd.wire.codec import decode_strict
from rankd.wire.message import ClassName
from rankd.wire.request_size import check_request
from rankd.wire.table_record import Nothing

Operation = Callable[[ClassTable], ClassTable]
Lists = Mapping[str, AccessList]


class _Change(NamedTuple):
    """An operation on the class ``name``, and what becomes of its access list."""

    name: str
    operate: Operation
    access: Access = msgspec.UNSET


def class_verbs(
    group: GroupCommit,
    present: Callable[[], Awaitable[tuple[ClassTable, Lists]]],
    use: Callable[[ClassTable, Lists], Awaitable[None]],
) -> list[Verb]:
    """``class.list``, ``class.show``; for administrators ``class.create``, ``class.update``, ``class.delete``.

    ``present`` returns the classes in force and their access lists; ``use`` gets the new ones once they are durable.
    """

    async def listed(_asker: Submitter, payload: bytes) -> Reply:
        decode_strict(payload, Nothing)
        table, lists = await present()
        return {"classes": [_with_access(one, lists) for one in table.listed()]}

    async def shown(_asker: Submitter, payload: bytes) -> Reply:
        name = decode_strict(payload, ClassName).name
        table, lists = await present()
        return _with_access(table.named(name, "name"), lists)

    def changing(operation: Callable[[bytes], _Change]) -> UserHandler:
        async def handle(_asker: Submitter, payload: bytes) -> Reply:
            change = operation(payload)
            after, access = await group.do(lambda connection: _changed(connection, change))
            await use(after, access)
            present = after.classes.get(change.name)
            return {"deleted": change.name} if present is None else _with_access(present, access)

        return handle

    return [
        Verb("class.list", listed),
        Verb("class.show", shown),
        Verb("class.create", changing(_create)),
        Verb("class.update", changing(_update)),
        Verb("class.delete", changing(_delete)),
    ]


def _changed(connection: Connection, change: _Change) -> tuple[ClassTable, Lists]:
    after = change_classes(connection, change.operate)
    if change.access is not msgspec.UNSET:
        write_access(connection, change.name, change.access)
    return after, read_access(connection)


def _with_access(given: PriorityClass, lists: Lists) -> dict[str, object]:
    """A class as answers show it."""
    access = lists.get(given.name)
    return msgspec.structs.asdict(given) | ({} if access is None else {"access": access})


def _read(payload: bytes) -> tuple[PriorityClass, Access]:
    document, access = split_access(_decode(payload))
    if isinstance(access, AccessList):
        check_request(access)
    return check_request(read_class(document)), access


def _create(payload: bytes) -> _Change:
    given, access = _read(payload)
    return _Change(given.name, lambda table: table.create(given), access)


def _update(payload: bytes) -> _Change:
    given, access = _read(payload)
    return _Change(given.name, lambda table: table.update(given), access)


def _delete(payload: bytes) -> _Change:
    name = decode_strict(payload, ClassName).name
    return _Change(name, lambda table: table.delete(name))


def _decode(payload: bytes) -> object:
    try:
        return msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise Refused("bad_request", f"the message is not valid JSON: {error}") from None
