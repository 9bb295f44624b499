"""Priority classes in JSON documents, and the check of one operation on them (``rankd class check``).

Pure. This module reads the documents. A field that is absent or null gets its default; an empty text does not. The
rules are in :mod:`rankd.core.admission.priority_class`. The bus verbs ``class.*`` use this module too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from rankd.core.admission.priority_class import (
    CLASS_FIELDS,
    ClassTable,
    check_int32,
    check_policy,
    check_unchanged,
    quoted,
)
from rankd.core.errors import Problem, Refused
from rankd.core.model.access import AccessList
from rankd.core.model.priority_class import PREEMPT_LOWER_PRIORITY, PriorityClass

_OPERATIONS = ("create", "update", "delete")
_REQUEST_FIELDS = ("existing", "operation", "class", "name", "privileged")

_T = TypeVar("_T", str, bool)


def read_class(document: object) -> PriorityClass:
    """The class that a request contains. ``name`` and ``value`` are required; other fields have defaults.

    This can't be done by a struct decoder: here null counts as absent, ``""`` does not, and 1.0 is not an integer.

    Raises:
        Refused: ``bad_class``, ``bad_class_name``, ``bad_class_value``, ``bad_preemption_policy``.
    """
    if not isinstance(document, Mapping):
        raise Refused("bad_class", f"{quoted(document)} is not a priority class; give an object with name and value")
    for key in document:
        if key not in CLASS_FIELDS:
            known = ", ".join(CLASS_FIELDS)
            raise Refused("bad_class", f"unknown field '{key}' in a priority class; known: {known}", str(key))
    name = _typed(document, "name", str, "", "bad_class_name")
    if not name:
        raise Refused("bad_class_name", "a priority class needs a name; give one such as 'batch-high'", "name")
    policy = _typed(document, "preemption_policy", str, PREEMPT_LOWER_PRIORITY, "bad_preemption_policy")
    check_policy(policy)
    return PriorityClass(
        name=name,
        value=check_int32(document.get("value")),
        global_default=_typed(document, "global_default", bool, False),
        description=_typed(document, "description", str, ""),
        preemption_policy=policy,
    )


Access = AccessList | msgspec.UnsetType | None
"""The access list of a request about a class. None removes the class's list. UNSET leaves it as it is."""


def split_access(document: object) -> tuple[object, Access]:
    """What a request says of a class, and its access list.

    Raises:
        Refused: ``bad_class``: this is not a list of users and groups.
    """
    if not isinstance(document, Mapping) or "access" not in document:
        return document, msgspec.UNSET
    try:
        access = msgspec.convert(document["access"], AccessList | None)
    except msgspec.ValidationError as error:
        message = f'access: {error}; give {{"users": […], "groups": […]}}'
        raise Refused("bad_class", message, "access") from None
    return {name: value for name, value in document.items() if name != "access"}, access


class CheckAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What ``rankd class check`` prints: the verdict, and all classes after the operation."""

    accepted: bool
    code: str | None = None
    message: str | None = None
    classes: tuple[PriorityClass, ...] = ()


class MalformedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a document that does not contain a valid operation."""

    errors: tuple[Problem, ...]


def check(document: object) -> CheckAnswer | MalformedAnswer:
    """Check one operation on a table of classes. The decoded JSON document contains both. Never raises.

    ``{"existing": [classes], "operation": "create"|"update"|"delete", "class": {…}, "name": "…"}``. A key
    ``privileged`` is accepted and changes nothing, because no rule about classes depends on it.
    """
    try:
        table, operation, request = _read_request(document)
    except _Malformed as malformed:
        return MalformedAnswer(errors=(malformed.problem,))
    try:
        after = _operate(table, operation, request)
    except Refused as refusal:
        return CheckAnswer(accepted=False, code=refusal.code, message=refusal.message, classes=table.listed())
    return CheckAnswer(accepted=True, classes=after.listed())


class _Malformed(Exception):
    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(path=path, message=message)


def _read_request(document: object) -> tuple[ClassTable, str, Mapping[object, object]]:
    if not isinstance(document, Mapping):
        raise _Malformed("$", f"{quoted(document)} is not an object; give existing, operation, and class or name")
    for key in document:
        if key not in _REQUEST_FIELDS:
            raise _Malformed(f"$.{key}", f"unknown key '{key}'; known: {', '.join(_REQUEST_FIELDS)}")
    operation = document.get("operation")
    if not isinstance(operation, str) or operation not in _OPERATIONS:
        raise _Malformed("$.operation", f"unknown operation {quoted(operation)}; give one of {', '.join(_OPERATIONS)}")
    if not isinstance(document.get("privileged"), bool | None):
        raise _Malformed("$.privileged", f"{quoted(document['privileged'])} is not true or false")
    return _read_existing(document.get("existing")), operation, document


def _read_existing(entries: object) -> ClassTable:
    if not isinstance(entries, list | tuple | None):
        raise _Malformed("$.existing", f"{quoted(entries)} is not a list of classes")
    read: dict[str, PriorityClass] = {}
    for position, entry in enumerate(entries or ()):
        path = f"$.existing[{position}]"
        try:
            given = read_class(entry)
        except Refused as refusal:
            raise _Malformed(f"{path}.{refusal.field}" if refusal.field else path, refusal.message) from None
        if given.name in read:
            raise _Malformed(f"{path}.name", f"'{given.name}' is listed twice; leave one of them out")
        read[given.name] = given
    return ClassTable.of(read.values())


def _operate(table: ClassTable, operation: str, request: Mapping[object, object]) -> ClassTable:
    given, name = request.get("class"), request.get("name") or None
    if isinstance(given, Mapping) and name is not None:
        # the name beside the class selects it; the name inside the class may be left out, but must not differ
        check_unchanged(str(name), "name", name, given.get("name") or name)
        given = {**given, "name": name}
    if operation == "delete":
        return table.delete(_target(given, name))
    read = read_class(given)
    return table.create(read) if operation == "create" else table.update(read)


def _target(given: object, name: object) -> str:
    target = given.get("name") if name is None and isinstance(given, Mapping) else name
    if not isinstance(target, str) or not target:
        raise Refused("bad_class_name", f"{quoted(target)} is not the name of a priority class; give its name", "name")
    return target


def _typed(document: Mapping[object, object], field: str, kind: type[_T], default: _T, code: str = "bad_class") -> _T:
    value = document.get(field)
    if value is None:
        return default
    if not isinstance(value, kind):
        wanted = "text" if kind is str else "true or false"
        raise Refused(code, f"{field} is {quoted(value)}; give {wanted}", field)
    return value
