"""The placement rules of a partition. rankd does not use them for placement, but a wrong rule is an error.

A file that YuniKorn would refuse must not look valid here.

Source: YuniKorn 1.8, ``configvalidator.go``. Where it compares names by case, or requires ``parent: true`` on a queue
that has children anyway, this check is more lenient.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

from rankd.config.limit_rule import GROUP_NAME, USER_NAME
from rankd.core.model.queue import ROOT_QUEUE

if TYPE_CHECKING:
    from rankd.config.queue_draft import PartitionDraft, QueueDraft
    from rankd.config.yaml_reader import Fields, FilePlace

_KEYS = ("name", "create", "filter", "parent", "value")
_FILTER_KEYS = ("type", "users", "groups")
_NAME = re.compile(r"[_a-zA-Z][a-zA-Z0-9_]*")
_SPECIAL = re.compile(r"[\^$*+?()\[{}|]")
_FIXED = "fixed"


def check_placement_rules(partition: PartitionDraft) -> None:
    """Note errors in the rules themselves, and fixed rules that lead to no queue."""
    for rule in partition.fields["placementrules"].items():
        chain = _chain(rule)
        static, dynamic = _static_path(chain)
        if static:
            _check_target(chain[-1], static, dynamic, partition.root)


def _chain(rule: FilePlace) -> list[Fields]:
    """The rule and its parents, outermost first, each checked separately."""
    fields = rule.fields(_KEYS)
    above = _chain(fields["parent"]) if fields["parent"].given else []
    name = fields["name"].text()
    if not _NAME.fullmatch(name):
        fields["name"].error(f"'{name}' is not a valid rule name; write one such as fixed, user or tag")
    fields["create"].flag()
    fields["value"].text()
    _check_filter(fields["filter"].fields(_FILTER_KEYS))
    return [*above, fields]


def _check_filter(fields: Fields) -> None:
    kind = fields["type"].text()
    if kind.lower() not in ("", "allow", "deny"):
        fields["type"].error(f"unknown filter type '{kind}'; write allow or deny")
    for key, pattern in (("users", USER_NAME), ("groups", GROUP_NAME)):
        names = fields[key].texts()
        # a single entry may be an expression; in longer lists every entry is a name, and odd ones match none
        if len(names) == 1 and not pattern.fullmatch(names[0]) and not _is_expression(names[0]):
            fields[key].error(f"'{names[0]}' is neither a name nor a regular expression")


def _is_expression(text: str) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):  # about syntax whose meaning may change in a later Python
            re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return bool(_SPECIAL.search(text))


def _static_path(chain: list[Fields]) -> tuple[list[str], bool]:
    """The queue path of the fixed rules at the chain's beginning; and whether other rules follow."""
    path: list[str] = []
    for fields in chain:
        if fields["name"].text() != _FIXED:
            return path, True
        parts = fields["value"].text().lower().split(".")
        if parts[0] != ROOT_QUEUE:
            path = [*(path or [ROOT_QUEUE]), *parts]
        elif path:
            fields["value"].error(f"'{fields['value'].text()}' begins at root, but has a rule above; leave 'root.' out")
            return [], False
        else:
            path = parts
    return path, False


def _check_target(rule: Fields, path: list[str], dynamic: bool, root: QueueDraft) -> None:
    shown = ".".join(path)
    create = rule["create"].flag()
    queue: QueueDraft | None = root
    for name in path[1:]:
        above = queue
        queue = next((child for child in above.queues if child.name.lower() == name), None) if above else None
        if queue is None:
            if above and not above.parent:
                rule.place.error(
                    f"this rule leads to '{shown}', below the leaf queue '{above.name}'; change one of them"
                )
            elif not create:
                rule.place.error(f"this rule leads to '{shown}', which does not exist; add it, or 'create: true'")
            return
    if queue is not None and dynamic and not queue.parent:
        rule.place.error(f"this rule goes on below '{shown}', which is a leaf queue; set 'parent: true' there")
    if queue is not None and not dynamic and queue.fields["parent"].flag():
        rule.place.error(f"this rule leads to '{shown}', which is not a leaf queue; name one below it")
