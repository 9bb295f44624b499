"""The rules for limits per user and group: each by itself, within its queue, and within the limits above it.

Names are compared as written. A limit also applies below queues that have no limit for that name.

Source: YuniKorn 1.8, ``configvalidator.go``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from rankd.config.queue_rule import excess, least

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rankd.config.queue_draft import LimitDraft, PartitionDraft, QueueDraft
    from rankd.config.yaml_reader import FilePlace
    from rankd.core.model.quantity import Resources

Kind = Literal["users", "groups"]
Bound = tuple["Resources", int]

WILDCARD = "*"
USER_NAME = re.compile(r"[_a-zA-Z][a-zA-Z0-9_:#/.@-]*[$]?")
GROUP_NAME = re.compile(r"[_a-zA-Z][a-zA-Z0-9_:.@/-]*")

_KINDS: tuple[Kind, ...] = ("users", "groups")
_NAMES = {"users": USER_NAME, "groups": GROUP_NAME}


def check_limit_rules(partition: PartitionDraft) -> None:
    """Note every broken rule about the limits of a partition and of its queues."""
    root, limits = partition.root, partition.limits
    if limits and root.limits and [draft.limit for draft in limits] != [draft.limit for draft in root.limits]:
        partition.fields["limits"].error("these limits differ from those of root; keep one of the two lists")
    if limits:
        _check_list(limits, root)
    _check_queue(root, {"users": {}, "groups": {}}, root.limits or limits)


def _check_queue(queue: QueueDraft, above: Mapping[Kind, Mapping[str, Bound]], limits: Sequence[LimitDraft]) -> None:
    if queue.limits:
        _check_list(queue.limits, queue)
    bounds = {kind: _bounded(kind, limits, above[kind]) for kind in _KINDS}
    for child in queue.queues:
        _check_queue(child, bounds, child.limits)


def _check_list(drafts: Sequence[LimitDraft], queue: QueueDraft) -> None:
    for kind in _KINDS:
        _check_names(kind, drafts)
    for draft in drafts:
        _check_amounts(draft, queue)


def _check_names(kind: Kind, drafts: Sequence[LimitDraft]) -> None:
    seen: set[str] = set()
    for draft in drafts:
        for place in draft.fields[kind].items():
            name = place.text()
            _check_name(kind, place, name, seen)
            seen.add(name)
    if kind == "groups" and seen == {WILDCARD}:
        place = next(draft.fields[kind] for draft in drafts if draft.limit.groups)
        place.error("the group '*' alone would limit the whole queue; name a group before it, or set the queue's max")


def _check_name(kind: Kind, place: FilePlace, name: str, seen: set[str]) -> None:
    what = kind[:-1]
    if name != WILDCARD and not _NAMES[kind].fullmatch(name):
        place.error(f"'{name}' is not a valid {what} name; begin with a letter or _ and use no blanks, or write '*'")
    elif name in seen:
        place.error(f"the {what} '{name}' has a limit in this queue already; keep one")
    elif WILDCARD in seen:
        place.error(f"the {what} '{name}' comes after '*', which must be the last; move it up")


def _check_amounts(draft: LimitDraft, queue: QueueDraft) -> None:
    fields, limit = draft.fields, draft.limit
    if not limit.users and not limit.groups:
        fields.place.error("this limit names neither users nor groups; add some")
    written = fields["maxresources"].entries()
    if written and not limit.maxresources:
        fields["maxresources"].error("all amounts are 0, which would allow nothing; give one or leave maxresources out")
    elif not written and not limit.maxapplications:
        fields.place.error("this limit limits nothing; give maxresources or maxapplications")
    too_much = excess(limit.maxresources, queue.max)
    if too_much:
        fields["maxresources"].error(f"this limit allows more than the queue's max: {too_much}; lower it")
    if queue.maxapplications and limit.maxapplications > queue.maxapplications:
        fields["maxapplications"].error(
            f"{limit.maxapplications} is over the queue's maxapplications, {queue.maxapplications}; lower it"
        )


def _bounded(kind: Kind, limits: Sequence[LimitDraft], above: Mapping[str, Bound]) -> dict[str, Bound]:
    """The limits that apply below, by name: those from above, and the queue's own, each checked against those."""
    bounds = dict(above)
    for draft in limits:
        for name in getattr(draft.limit, kind):
            bound = above.get(name) or above.get(WILDCARD)
            if bound is not None:
                _check_bound(draft, f"{kind[:-1]} '{name}'", bound)
            own = (draft.limit.maxresources, draft.limit.maxapplications)
            bounds[name] = _tighter(own, above[name]) if name in above else own
    return bounds


def _check_bound(draft: LimitDraft, who: str, bound: Bound) -> None:
    resources, applications = bound
    too_much = excess(draft.limit.maxresources, resources)
    if too_much:
        draft.fields["maxresources"].error(f"{who} may use more than a limit above allows: {too_much}; lower it")
    own = draft.limit.maxapplications
    if applications and not 0 < own <= applications:
        draft.fields["maxapplications"].error(
            f"{who} may run {own or 'any number of'} applications here and {applications} above; lower it"
        )


def _tighter(own: Bound, above: Bound) -> Bound:
    return least(own[0], above[0]), min(filter(None, (own[1], above[1])), default=0)
