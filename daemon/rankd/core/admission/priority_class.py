"""The table of priority classes and every rule about it: creation, update, deletion, resolution.

Pure. Tables are values: an operation returns a new table and leaves the old one unchanged. So the users of a table
(intake, ``rankd class check``, evaluate) never see half of a change. Tables are stored elsewhere, and elsewhere is
checked who may change them. :mod:`rankd.core.admission.class_check` reads classes from documents.

Source: Kubernetes, "Priority in Kubernetes API" (2017). Where that text differs from the running system
(``scheduling.k8s.io/v1``), rankd uses the values and the policy of the running system.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.priority_class import NEVER, PREEMPT_LOWER_PRIORITY, PriorityClass
from rankd.core.near_name import unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SYSTEM_PREFIX = "system-"
HIGHEST_USER_VALUE = 1_000_000_000
LOWEST, HIGHEST = -(2**31), 2**31 - 1
LONGEST_NAME = 253

BUILT_IN = (
    PriorityClass(
        name="system-cluster-critical",
        value=2_000_000_000,
        description="For jobs that the cluster can't do without, on any node.",
    ),
    PriorityClass(
        name="system-node-critical",
        value=2_000_001_000,
        description="For jobs that a node can't do without; the highest class.",
    ),
)

_BUILT_IN_BY_NAME = {built_in.name: built_in for built_in in BUILT_IN}
CLASS_FIELDS = PriorityClass.__struct_fields__
_FIXED = ("value", "preemption_policy")
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """The values that a job keeps from its class. ``name`` is None if no class applies."""

    class_value: int
    name: str | None
    preemption_policy: str


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """A table after a configuration file was read: the created classes, and one sentence per field that differs."""

    table: ClassTable
    created: tuple[PriorityClass, ...] = ()
    differences: tuple[str, ...] = ()


class ClassTable(msgspec.Struct, frozen=True):
    """All classes by name, always with the built-in ones. Make a table with :meth:`of`."""

    classes: dict[str, PriorityClass]

    @classmethod
    def of(cls, classes: Iterable[PriorityClass] = ()) -> ClassTable:
        """A table of stored or imported classes. They are not checked: rules apply to changes only.

        A missing built-in class is added. A built-in class with another value or policy gets its own back.
        """
        table = dict(_BUILT_IN_BY_NAME)
        for given in classes:
            built_in = _BUILT_IN_BY_NAME.get(given.name)
            table[given.name] = given if built_in is None else _restored(given, built_in)
        return cls(table)

    def listed(self) -> tuple[PriorityClass, ...]:
        """All classes, with the built-in ones, sorted by name."""
        return tuple(self.classes[name] for name in sorted(self.classes))

    def global_default(self) -> PriorityClass | None:
        """The default class in use, or None.

        Imported data may have several defaults. Then the smallest value counts, and among equal values the first name.
        """
        defaults = (given for given in self.classes.values() if given.global_default)
        return min(defaults, key=lambda given: (given.value, given.name), default=None)

    def create(self, given: PriorityClass) -> ClassTable:
        """The table with one more class.

        Raises:
            Refused: ``bad_class_name``, ``reserved_class_name``, ``bad_class_value``,
                ``class_value_too_high``, ``bad_preemption_policy``, ``class_exists``,
                ``second_global_default``.
        """
        _check_name(given.name)
        _check_value(given)
        check_policy(given.preemption_policy)
        if given.name in self.classes:
            raise Refused(
                "class_exists",
                f"priority class '{given.name}' exists already; choose another name, or delete it first",
                "name",
                409,
            )
        self._check_default(given)
        return ClassTable({**self.classes, given.name: given})

    def update(self, given: PriorityClass) -> ClassTable:
        """The table with the whole class of this name replaced. Only its description and default may differ.

        Raises:
            Refused: ``unknown_priority_class``, ``bad_class_value``, ``bad_preemption_policy``,
                ``immutable_class_field``, ``second_global_default``.
        """
        check_int32(given.value)
        check_policy(given.preemption_policy)
        present = self.named(given.name, "name")
        for field in _FIXED:
            check_unchanged(given.name, field, getattr(present, field), getattr(given, field))
        self._check_default(given)
        return ClassTable({**self.classes, given.name: given})

    def delete(self, name: str) -> ClassTable:
        """The table without this class. Jobs that name it keep their number, so they do not prevent the deletion.

        Raises:
            Refused: ``unknown_priority_class``, ``built_in_class``.
        """
        if name in _BUILT_IN_BY_NAME:
            raise Refused("built_in_class", f"priority class '{name}' is built in and can't be deleted", "name", 403)
        self.named(name, "name")
        return ClassTable({key: kept for key, kept in self.classes.items() if key != name})

    def reconcile(self, configured: Iterable[PriorityClass]) -> Reconciled:
        """Create the classes of a configuration file that this table lacks. Other classes stay as they are."""
        table = self
        created: list[PriorityClass] = []
        differences: list[str] = []
        for given in configured:
            present = table.classes.get(given.name)
            if present is not None:
                differences.extend(_differences(present, given))
                continue
            try:
                table = table.create(given)
            except Refused as refusal:
                differences.append(f"priority class '{given.name}' is not created: {refusal.message}")
            else:
                created.append(given)
        return Reconciled(table=table, created=tuple(created), differences=tuple(differences))

    def named(self, name: str, field: str) -> PriorityClass:
        """The class of this name. An error names ``field`` as the field of the request that is wrong.

        Raises:
            Refused: ``unknown_priority_class``.
        """
        present = self.classes.get(name)
        if present is None:
            message = unknown("priority class", name, sorted(self.classes))
            raise Refused("unknown_priority_class", message, field, 404)
        return present

    def _check_default(self, given: PriorityClass) -> None:
        in_force = self.global_default() if given.global_default else None
        if in_force is not None and in_force.name != given.name:
            raise Refused(
                "second_global_default",
                f"'{given.name}' can't be the global default, because '{in_force.name}' is; set global_default of "
                f"'{in_force.name}' to false first",
                "global_default",
                409,
            )


def resolve(
    classes: ClassTable,
    name: str | None,
    priority: int | None,
    preemption_policy: str | None,
    privileged: bool,
) -> Resolved:
    """The class of a job. It is resolved once, at submission; afterwards only its number counts.

    A job without a name (None or empty) gets the global default. Without a global default it gets 0 and no name. A
    ``priority`` or ``preemption_policy`` given with the job selects nothing: it must equal that of the class.

    Raises:
        Refused: ``unknown_priority_class``, ``system_priority_class``, ``priority_mismatch``,
            ``preemption_policy_mismatch``.
    """
    found = classes.named(name, "priority_class") if name else classes.global_default()
    if found is None:
        resolved = Resolved(class_value=0, name=None, preemption_policy=PREEMPT_LOWER_PRIORITY)
    else:
        _check_allowed(found, privileged)
        resolved = Resolved(class_value=found.value, name=found.name, preemption_policy=found.preemption_policy)
    _check_agrees("priority", priority, resolved.class_value, resolved.name)
    _check_agrees("preemption_policy", preemption_policy, resolved.preemption_policy, resolved.name)
    return resolved


def _check_name(name: str) -> None:
    if len(name) > LONGEST_NAME or not _DNS_SUBDOMAIN.fullmatch(name):
        raise Refused(
            "bad_class_name",
            f"'{name}' is not a valid name for a priority class; use at most {LONGEST_NAME} of a-z, 0-9, '-' and '.'; "
            "each part between dots must begin and end with a letter or digit",
            "name",
        )
    if name.startswith(SYSTEM_PREFIX) and name not in _BUILT_IN_BY_NAME:
        raise Refused(
            "reserved_class_name",
            f"'{name}': names beginning with '{SYSTEM_PREFIX}' are for built-in classes; choose another name",
            "name",
        )


def _check_value(given: PriorityClass) -> None:
    value = check_int32(given.value)
    if value > HIGHEST_USER_VALUE and given.name not in _BUILT_IN_BY_NAME:
        raise Refused(
            "class_value_too_high",
            f"value {value} of '{given.name}' is more than {HIGHEST_USER_VALUE}, and larger values are for built-in "
            "classes; give a smaller one",
            "value",
        )


def check_int32(value: object) -> int:
    """Returns the value if it is a valid int32. Booleans, floats and texts are not valid.

    Raises:
        Refused: ``bad_class_value``.
    """
    if value is None:
        raise Refused("bad_class_value", "a priority class needs a value; give a whole number", "value")
    if isinstance(value, bool) or not isinstance(value, int) or not LOWEST <= value <= HIGHEST:
        raise Refused(
            "bad_class_value",
            f"value {quoted(value)} is not a whole number from {LOWEST} to {HIGHEST}",
            "value",
        )
    return value


def check_policy(policy: str) -> None:
    """Check that the policy is ``PreemptLowerPriority`` or ``Never``.

    Raises:
        Refused: ``bad_preemption_policy``.
    """
    if policy not in (PREEMPT_LOWER_PRIORITY, NEVER):
        raise Refused(
            "bad_preemption_policy",
            f"unknown preemption policy '{policy}'; give {PREEMPT_LOWER_PRIORITY} or {NEVER}, or leave it out",
            "preemption_policy",
        )


def check_unchanged(name: str, field: str, present: object, given: object) -> None:
    """Check that a field that can't change after creation has its present value.

    Raises:
        Refused: ``immutable_class_field``.
    """
    if given != present:
        raise Refused(
            "immutable_class_field",
            f"{field} of priority class '{name}' is {present} and can't become {given}; leave it unchanged, or "
            "delete the class and create it again",
            field,
        )


def _check_allowed(found: PriorityClass, privileged: bool) -> None:
    if found.name.startswith(SYSTEM_PREFIX) and not privileged:
        raise Refused(
            "system_priority_class",
            f"priority class '{found.name}' is for privileged submitters; name another class",
            "priority_class",
            403,
        )


def _check_agrees(field: str, given: int | str | None, found: int | str, name: str | None) -> None:
    if given is None or (given == found and not isinstance(given, bool)):
        return
    source = f"class '{name}' gives" if name else "a job without a class gets"
    raise Refused(f"{field}_mismatch", f"{field} is {given}, but {source} {found}; leave {field} out", field)


def _restored(given: PriorityClass, built_in: PriorityClass) -> PriorityClass:
    return msgspec.structs.replace(given, value=built_in.value, preemption_policy=built_in.preemption_policy)


def _differences(present: PriorityClass, given: PriorityClass) -> Iterator[str]:
    for field in CLASS_FIELDS:
        here, there = getattr(present, field), getattr(given, field)
        if here != there:
            yield f"priority class '{given.name}' keeps {field} {quoted(here)}; the file says {quoted(there)}"


def quoted(value: object) -> str:
    """A value as JSON, cut to 80 characters."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
