"""Reads ``config/priorityclasses.yaml``: Kubernetes' own PriorityClass manifests, unchanged.

The annotations ``rankd/users`` and ``rankd/groups`` (names with commas) are the access list of a class. It is not part
of the class itself, and is in force as long as the file has it.

The file has several documents, or lists as ``kubectl get priorityclasses -o yaml`` prints them. The core has the rules
about classes. They are applied here too, so that errors are reported before the file is used.
``ClassTable.reconcile`` decides what a file changes in a running system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rankd.config.yaml_reader import FilePlace, Findings, parse_all
from rankd.core.admission.priority_class import BUILT_IN, ClassTable, check_policy
from rankd.core.errors import Refused
from rankd.core.model.access import AccessList
from rankd.core.model.priority_class import PREEMPT_LOWER_PRIORITY, PriorityClass

if TYPE_CHECKING:
    from collections.abc import Iterator

API_VERSION = "scheduling.k8s.io/v1"
KIND = "PriorityClass"

_KEYS = ("apiVersion", "kind", "metadata", "value", "globalDefault", "description", "preemptionPolicy")
_LIST_KEYS = ("apiVersion", "kind", "metadata", "items")
_LISTS = {"PriorityClassList": API_VERSION, "List": "v1"}
_ANNOTATIONS = "metadata.annotations"
_PREFIX = "rankd/"
_LIST_ANNOTATIONS = ("rankd/users", "rankd/groups")
_KEY_OF_FIELD = {
    "name": "metadata.name",
    "global_default": "globalDefault",
    "preemption_policy": "preemptionPolicy",
}
_BUILT_IN_VALUES = {built_in.name: built_in.value for built_in in BUILT_IN}


class ClassesRead(NamedTuple):
    """The classes of a file, in its order, and the access lists by class."""

    classes: tuple[PriorityClass, ...]
    access: dict[str, AccessList]


def read_priority_classes(text: str, file: str = "priorityclasses.yaml") -> tuple[PriorityClass, ...]:
    """The classes of a file without their access lists, as :func:`read_classes_and_access`.

    Raises:
        ConfigurationError: as :func:`read_classes_and_access`.
    """
    return read_classes_and_access(text, file).classes


def read_classes_and_access(text: str, file: str = "priorityclasses.yaml") -> ClassesRead:
    """The classes of a file, in its order, and their access lists; an empty file has none.

    A built-in class, such as in a list from a Kubernetes cluster, is skipped, because it exists already.

    Raises:
        ConfigurationError: with all errors of the file, by line.
    """
    findings = Findings(file)
    table = ClassTable.of()
    access: dict[str, AccessList] = {}
    for manifest in _manifests(parse_all(text, findings)):
        table = _with(table, manifest)
        listed = _access(manifest)
        if listed is not None:
            access[manifest.entry("metadata").entry("name").text()] = listed
    findings.raise_errors()
    return ClassesRead(tuple(given for name, given in table.classes.items() if name not in _BUILT_IN_VALUES), access)


def _access(manifest: FilePlace) -> AccessList | None:
    """The list in a manifest's annotations; None if it has none. Annotations of others are not looked at."""
    annotations = manifest.entry(_ANNOTATIONS)
    if not annotations.given:
        return None
    found = {key: place for key, place in annotations.entries().items() if key.startswith(_PREFIX)}
    for key, place in found.items():
        if key not in _LIST_ANNOTATIONS:
            place.error(f"unknown annotation '{key}'; known: {', '.join(_LIST_ANNOTATIONS)}")
    if not found:
        return None
    users, groups = (_names(found[key]) if key in found else [] for key in _LIST_ANNOTATIONS)
    return AccessList(users=users, groups=groups)


def _names(place: FilePlace) -> list[str]:
    return [name.strip() for name in place.text().split(",") if name.strip()]


def _manifests(documents: list[FilePlace]) -> Iterator[FilePlace]:
    for document in documents:
        kind = document.entry("kind").text()
        if kind not in _LISTS:
            if document.given:
                yield document
            continue
        fields = document.fields(_LIST_KEYS)
        _expect(fields["apiVersion"], _LISTS[kind])
        yield from fields["items"].items()


def _with(table: ClassTable, manifest: FilePlace) -> ClassTable:
    """The table with one manifest's class added. If it has errors, they are noted and the table is unchanged."""
    fields = manifest.fields(_KEYS)
    in_list = manifest.path.startswith("items")
    if not in_list or fields["apiVersion"].given:
        _expect(fields["apiVersion"], API_VERSION)
    if not in_list or fields["kind"].given:
        _expect(fields["kind"], KIND)
    value = fields["value"].integer()
    if not fields["value"].given:
        fields["value"].error(f"a {KIND} needs a value; add one such as 'value: 1000'")
    policy = fields["preemptionPolicy"]
    given = PriorityClass(
        name=fields["metadata"].entry("name").text(),
        value=value or 0,
        global_default=fields["globalDefault"].flag(),
        description=fields["description"].text(),
        preemption_policy=policy.text() if policy.given else PREEMPT_LOWER_PRIORITY,
    )
    try:
        if _BUILT_IN_VALUES.get(given.name) == value is not None:
            check_policy(given.preemption_policy)
            return table
        return table.create(given)
    except Refused as refusal:
        field = refusal.field or ""
        manifest.entry(_KEY_OF_FIELD.get(field, field)).error(refusal.message)
        return table


def _expect(place: FilePlace, wanted: str) -> None:
    if place.text() != wanted:
        place.error(f"'{place.text()}' is written where '{wanted}' is needed; nothing else is supported here")
