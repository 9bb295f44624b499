"""Which groups a configuration names, and warnings about those that have no users by what is known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from rankd.core.admission.acl import EVERYONE, parse_acl
from rankd.core.errors import Problem
from rankd.core.model.access import AccessLists
from rankd.core.model.queue import Partition, Queue, walk_queues
from rankd.core.model.setting import Settings


class GroupLists(NamedTuple):
    """The parts of a configuration that name groups."""

    partitions: tuple[Partition, ...]
    settings: Settings
    access: AccessLists


class NamedGroup(NamedTuple):
    """A group, and where it is named. ``gives_rights``: its users become administrators or operators."""

    file: str
    path: str
    what: str
    group: str
    gives_rights: bool = False


def named_groups(lists: GroupLists) -> Iterator[NamedGroup]:
    """Each group that access lists and limits name, once per list."""
    for partition in lists.partitions:
        for queue in walk_queues(partition.root):
            yield from _of_queue(queue)
    rule, access = lists.settings.admission, lists.access
    named = [
        *(("rankd.toml", f"qos '{one.name}'", one.groups or [], False) for one in lists.settings.qos),
        ("rankd.toml", "admission.admin_groups", rule.admin_groups, True),
        ("rankd.toml", "admission.operator_groups", rule.operator_groups, True),
        *(("priorityclasses.yaml", f"class '{name}'", one.groups, False) for name, one in access.classes.items()),
        *(("accounts.yaml", f"account '{name}'", one.groups, False) for name, one in access.accounts.items()),
    ]
    for file, what, groups, gives_rights in named:
        for group in dict.fromkeys(groups):
            yield NamedGroup(file, "groups", what, group, gives_rights)


def _of_queue(queue: Queue) -> Iterator[NamedGroup]:
    admins = parse_acl(queue.adminacl).groups
    named = sorted(parse_acl(queue.submitacl).groups) + sorted(admins)
    named += [name for limit in queue.limits for name in limit.groups if name != EVERYONE]
    for name in dict.fromkeys(named):
        yield NamedGroup("queues.yaml", queue.path, queue.path, name, name in admins)


def unlisted_groups(lists: GroupLists, known: Collection[str]) -> Iterator[Problem]:
    """Warnings about groups that accounts.yaml does not have, where groups of the host do not count.

    ``known``: the groups of accounts.yaml.
    """
    rule = lists.settings.admission.host_groups
    for one in named_groups(lists):
        if one.group in known or rule == "all" or (rule == "users" and not one.gives_rights):
            continue
        message = f"{one.what} names the group '{one.group}', which is not in accounts.yaml"
        if rule == "users":
            message += '; groups of this machine make no administrators, unless admission.host_groups is "all"'
        yield Problem(file=one.file, path=one.path, message=message)


def missing_groups(lists: GroupLists, known: Collection[str], on_host: Callable[[str], bool]) -> Iterator[Problem]:
    """Warnings about groups that neither accounts.yaml nor this machine has, where groups of the host count.

    ``on_host``: whether the user database of this machine has a group. It may block.
    """
    rule = lists.settings.admission.host_groups
    for one in named_groups(lists):
        counts = rule == "all" or (rule == "users" and not one.gives_rights)
        if counts and one.group not in known and not on_host(one.group):
            message = f"{one.what} names the group '{one.group}', which neither accounts.yaml nor this machine has"
            yield Problem(file=one.file, path=one.path, message=message)
