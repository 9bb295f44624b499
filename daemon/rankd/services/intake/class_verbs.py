"""Requests about priority classes: all users may list and show them, administrators create, update and delete them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from rankd.bus.endpoint import Reply, UserHandler, Verb
from rankd.core.admission.admit import Submitter
from rankd.core.admission.class_check import read_class
from rankd.core.admission.priority_class import ClassTable
from rankd.core.errors import Refused
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.record.priority_class import change_classes
from rankd.wire.codec import decode_strict
from rankd.wire.message import ClassName
from rankd.wire.request_size import check_request

Operation = Callable[[ClassTable], ClassTable]


def class_verbs(
    group: GroupCommit, table: Callable[[], ClassTable], use: Callable[[ClassTable], Awaitable[None]]
) -> list[Verb]:
    """``class.list``, ``class.show``; for administrators ``class.create``, ``class.update``, ``class.delete``.

    ``table`` returns the classes in force; ``use`` gets the new ones once they are durable.
    """

    async def listed(_asker: Submitter, _payload: bytes) -> Reply:
        return {"classes": list(table().listed())}

    async def shown(_asker: Submitter, payload: bytes) -> Reply:
        return table().named(decode_strict(payload, ClassName).name, "name")

    def changing(operation: Callable[[bytes], tuple[str, Operation]]) -> UserHandler:
        async def handle(_asker: Submitter, payload: bytes) -> Reply:
            name, operate = operation(payload)
            after = await group.do(lambda connection: change_classes(connection, operate))
            await use(after)
            return after.classes.get(name) or {"deleted": name}

        return handle

    return [
        Verb("class.list", listed),
        Verb("class.show", shown),
        Verb("class.create", changing(_create), admin_only=True),
        Verb("class.update", changing(_update), admin_only=True),
        Verb("class.delete", changing(_delete), admin_only=True),
    ]


def _create(payload: bytes) -> tuple[str, Operation]:
    given = check_request(read_class(_decode(payload)))
    return given.name, lambda table: table.create(given)


def _update(payload: bytes) -> tuple[str, Operation]:
    given = check_request(read_class(_decode(payload)))
    return given.name, lambda table: table.update(given)


def _delete(payload: bytes) -> tuple[str, Operation]:
    name = decode_strict(payload, ClassName).name
    return name, lambda table: table.delete(name)


def _decode(payload: bytes) -> object:
    try:
        return msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise Refused("bad_request", f"the message is not valid JSON: {error}") from None
