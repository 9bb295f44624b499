"""queues.yaml as written: keys, types, names, ACLs, quantities. Every draft remembers its place.

The rules for several queues together are in ``queue_rule`` and ``limit_rule``.

Source: YuniKorn 1.8, ``pkg/common/configs``: its structs for the keys, its validator for the rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankd.config.plugin import node_sort_names
from rankd.config.queue_property import Kind, Properties, read_properties
from rankd.core.model.device import in_lower_case
from rankd.core.model.quantity import Resources, parse_quantity
from rankd.core.model.queue import DEFAULT_PARTITION, QUEUE_NAME, ROOT_QUEUE, ChildTemplate, Limit, NodeSort

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rankd.config.yaml_reader import Fields, FilePlace

FILE_KEYS = ("partitions", "checksum")
PARTITION_KEYS = (
    "name",
    "queues",
    "limits",
    "nodesortpolicy",
    "placementrules",
    "preemption",
    "usergroupresolver",
    "statedumpfilepath",
)
QUEUE_KEYS = (
    "name",
    "parent",
    "resources",
    "maxapplications",
    "properties",
    "adminacl",
    "submitacl",
    "childtemplate",
    "queues",
    "limits",
)

_UNUSED = ("checksum", "placementrules", "preemption", "usergroupresolver", "statedumpfilepath")
_RESOURCES = ("guaranteed", "max")
_NODE_SORT = "fair"


@dataclass(frozen=True, slots=True)
class LimitDraft:
    """A limit, with the places for errors."""

    fields: Fields
    limit: Limit


@dataclass(frozen=True, slots=True)
class QueueDraft:
    """A queue. ``parent``: it is not a leaf. ``template``: its own child template."""

    place: FilePlace
    fields: Fields
    name: str
    parent: bool
    guaranteed: Resources
    max: Resources
    maxapplications: int
    properties: Properties
    template: ChildTemplate | None
    template_offset: FilePlace | None
    limits: tuple[LimitDraft, ...]
    queues: tuple[QueueDraft, ...]


@dataclass(frozen=True, slots=True)
class PartitionDraft:
    """A partition with one root queue."""

    fields: Fields
    name: str
    root: QueueDraft
    nodesort: NodeSort
    limits: tuple[LimitDraft, ...]


def read_drafts(document: FilePlace) -> list[PartitionDraft]:
    """All partitions of the file. Errors are noted, and the rest is still read."""
    fields = document.fields(FILE_KEYS)
    fields["checksum"].text()
    warn_unused(fields)
    drafts = [_partition(place) for place in fields["partitions"].items()]
    names = ((draft.fields["name"], draft.name) for draft in drafts)
    _check_unique(names, "partition")
    return drafts


def warn_unused(fields: Fields) -> None:
    """Warn about keys of YuniKorn's format that have no effect in rankd."""
    for key in _UNUSED:
        if fields[key].given:
            fields[key].warn("unused_key", f"rankd does not use '{key}'; it is checked and then ignored")


def _partition(place: FilePlace) -> PartitionDraft:
    fields = place.fields(PARTITION_KEYS)
    _read_unused(fields)
    name = fields["name"].text()
    return PartitionDraft(
        fields=fields,
        name=DEFAULT_PARTITION if name.lower() in ("", DEFAULT_PARTITION) else name,
        root=_root(place, fields),
        nodesort=_nodesort(fields["nodesortpolicy"]),
        limits=_limits(fields["limits"]),
    )


def _read_unused(fields: Fields) -> None:
    preemption = fields["preemption"].fields(("enabled", "quotapreemptionenabled"))
    preemption["enabled"].flag()
    preemption["quotapreemptionenabled"].flag()
    fields["usergroupresolver"].fields(("type",))["type"].text()
    fields["statedumpfilepath"].text()
    warn_unused(fields)


def _root(partition: FilePlace, fields: Fields) -> QueueDraft:
    """The single top queue if it is root; otherwise a new root above the top queues."""
    if not fields["queues"].given:
        fields["queues"].error("a partition needs queues; write 'queues:' with at least '- name: root'")
    tops = fields["queues"].items()
    if len(tops) == 1 and tops[0].entry("name").text().lower() == ROOT_QUEUE:
        root = _queue(tops[0], top=True)
        if any(root.fields["resources"].entry(key).given for key in _RESOURCES):
            root.fields["resources"].error("root has no resources of its own: it has those of its nodes; remove them")
        return root
    above = partition.nothing()
    return _assembled(above, above.fields(QUEUE_KEYS), ROOT_QUEUE, "root", _children(tops))


def _queue(place: FilePlace, *, top: bool = False) -> QueueDraft:
    fields = place.fields(QUEUE_KEYS)
    queues = _children(fields["queues"].items())
    is_parent = fields["parent"].flag() or bool(queues)
    kind: Kind = "root" if top else "parent" if is_parent else "leaf"
    return _assembled(place, fields, fields["name"].text(), kind, queues)


def _assembled(place: FilePlace, fields: Fields, name: str, kind: Kind, queues: tuple[QueueDraft, ...]) -> QueueDraft:
    for key in ("adminacl", "submitacl"):
        _check_acl(fields[key])
    resources = fields["resources"].fields(_RESOURCES)
    template, template_offset = _template(fields["childtemplate"], kind)
    return QueueDraft(
        place=place,
        fields=fields,
        name=name,
        parent=kind != "leaf",
        guaranteed={} if kind == "root" else read_amounts(resources["guaranteed"]),
        max={} if kind == "root" else _read_maximum(resources["max"]),
        maxapplications=fields["maxapplications"].count(),
        properties=read_properties(fields["properties"], kind),
        template=template,
        template_offset=template_offset,
        limits=_limits(fields["limits"]),
        queues=queues,
    )


def _children(places: list[FilePlace]) -> tuple[QueueDraft, ...]:
    queues = tuple(_queue(place) for place in places)
    for queue in queues:
        if not QUEUE_NAME.fullmatch(queue.name):
            advice = "write 1 to 64 of a-z A-Z 0-9 _ : # / @ - (dots join names to paths)"
            queue.fields["name"].error(f"'{queue.name}' is not a valid queue name; {advice}")
    _check_unique(((queue.fields["name"], queue.name) for queue in queues), "queue of this parent")
    return queues


def _check_unique(named: Iterable[tuple[FilePlace, str]], what: str) -> None:
    seen: dict[str, int] = {}
    for place, name in named:
        if name.lower() in seen:
            first = seen[name.lower()]
            place.error(f"another {what} (line {first}) is named '{name}', with case ignored; rename one of them")
        seen.setdefault(name.lower(), place.line)


def _check_acl(place: FilePlace) -> None:
    acl = place.text()
    if len(acl.split()) > 2:
        place.error(f"'{acl}' has more than two fields; write users, a space, groups, each a comma list, or '*'")


def _template(place: FilePlace, kind: Kind) -> tuple[ChildTemplate | None, FilePlace | None]:
    """The queue's own template, None if it is empty; and the place of its offset."""
    fields = place.fields(("maxapplications", "properties", "resources"))
    resources = fields["resources"].fields(_RESOURCES)
    properties = read_properties(fields["properties"], "leaf")
    template = ChildTemplate(
        guaranteed=read_amounts(resources["guaranteed"]),
        max=_read_maximum(resources["max"]),
        maxapplications=fields["maxapplications"].count(),
        properties=properties.values,
        sort_priority=properties.sort_priority,
    )
    if template == ChildTemplate():
        return None, None
    if kind == "leaf":
        place.warn(
            "no_effect",
            "a leaf queue has no children to apply a template to; set 'parent: true', or remove it",
        )
    return template, properties.offset


def read_amounts(place: FilePlace) -> Resources:
    """Quantities per resource type, zeros kept. Empty if all are 0, which means the same as leaving them out."""
    amounts = _written_amounts(place)
    return amounts if any(amounts.values()) else {}


def _read_maximum(place: FilePlace) -> Resources:
    """As :func:`read_amounts`. Zeros alone get a warning, as they look like a closed queue and limit nothing."""
    amounts = _written_amounts(place)
    if amounts and not any(amounts.values()):
        place.warn(
            "no_effect",
            "all amounts are 0, which sets no maximum, as in YuniKorn; write submitacl ' ' to close the queue, or add"
            " another amount",
        )
        return {}
    return amounts


def _written_amounts(place: FilePlace) -> Resources:
    """The amounts that can be read, as they are written."""
    amounts: Resources = {}
    for name, at in place.entries().items():
        resource = in_lower_case(name)
        try:
            if resource in amounts:
                at.error(f"'{name}' is there twice, since capital letters of a model don't count; remove one")
            amounts[resource] = parse_quantity(resource, at.text())
        except ValueError as error:
            at.error(str(error))
    return amounts


def _limits(place: FilePlace) -> tuple[LimitDraft, ...]:
    return tuple(_limit(item) for item in place.items())


def _limit(place: FilePlace) -> LimitDraft:
    fields = place.fields(("limit", "users", "groups", "maxresources", "maxapplications"))
    limit = Limit(
        limit=fields["limit"].text(),
        users=fields["users"].texts(),
        groups=fields["groups"].texts(),
        maxresources=read_amounts(fields["maxresources"]),
        maxapplications=fields["maxapplications"].count(),
    )
    return LimitDraft(fields=fields, limit=limit)


def _nodesort(place: FilePlace) -> NodeSort:
    fields = place.fields(("type", "resourceweights"))
    kind = fields["type"].text()
    if kind and kind not in (known := node_sort_names()):
        message = f"unknown node sorting policy '{kind}'; installed: {', '.join(known)}; case matters"
        fields["type"].error(message)
    weights: dict[str, float] = {}
    for resource, at in fields["resourceweights"].entries().items():
        weights[resource] = at.number()
        if weights[resource] < 0:
            at.error(f"the weight {weights[resource]} of {resource} is negative; write a number of at least 0")
    sort = NodeSort(type=kind or _NODE_SORT)
    return NodeSort(type=sort.type, resourceweights=weights) if weights else sort
