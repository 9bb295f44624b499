"""In which groups a user is: as accounts.yaml and the adapters say, else as the head's user database does.

The user database is slow, so it is asked only while a configuration names a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from rankd.core.admission.acl import Acl
from rankd.core.admission.queue_entry import QueueEntry
from rankd.core.admission.rights import Rights
from rankd.core.model.setting import AdmissionSettings

HostGroups = Literal["none", "users", "all"]

Groups = tuple[str, ...]


class UserGroups(Mapping[str, Groups]):
    """The groups of each user. ``host`` may change meanwhile: it has the users who were looked up.

    >>> UserGroups({"ann": ("optics",)}, {"ann": ("sudo",), "bob": ("staff",)})["ann"]
    ('optics',)
    >>> UserGroups({"ann": ("optics",)}, {"ann": ("sudo",), "bob": ("staff",)})["bob"]
    ('staff',)
    """

    def __init__(self, stated: Mapping[str, Groups], host: Mapping[str, Groups]) -> None:
        self._stated = stated
        self._host = host

    def __getitem__(self, user: str) -> Groups:
        return self._stated.get(user) or self._host[user]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._host, **self._stated})

    def __len__(self) -> int:
        return len({**self._host, **self._stated})


def own_groups(defined: Iterable[str], stated: Mapping[str, Groups]) -> frozenset[str]:
    """The groups that accounts.yaml defines or that an adapter gives: a group of the host with such a name is another.

    >>> sorted(own_groups(["ops"], {"ann": ("optics",)}))
    ['ops', 'optics']
    """
    return frozenset(defined).union(*stated.values())


def lists_groups(queues: Mapping[tuple[str, str], QueueEntry], rights: Rights, own: frozenset[str]) -> bool:
    """Whether an access list or a limit names a group of the host: one that is not ``own``."""
    lists = [*rights.qos.values(), *rights.classes.values(), *rights.accounts.values()]
    return any(not acl.groups <= own for acl in lists) or any(_has_others(entry, own) for entry in queues.values())


def makes_staff_by_group(
    queues: Mapping[tuple[str, str], QueueEntry], settings: AdmissionSettings, own: frozenset[str]
) -> bool:
    """Whether a group of the host makes its users administrators, operators, or administrators of a queue."""
    if not own >= {*settings.admin_groups, *settings.operator_groups}:
        return True
    return any(not entry.admins.groups <= own for entry in queues.values())


def _has_others(entry: QueueEntry, own: frozenset[str]) -> bool:
    lists: list[Acl] = [entry.admins] if entry.access is None else [entry.admins, entry.access]
    if any(not acl.groups <= own for acl in lists):
        return True
    return any(not own.issuperset(limit.groups) for _, limits in entry.limits for limit in limits)
