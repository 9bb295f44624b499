"""Who may submit to the queue of a partition: ``submitacl``, from ``AllowGroups``, ``AllowAccounts`` and others.

An access list of rankd's has users and groups. Rules about accounts and QoS become the users whom they allow. A rule
that can't be written closes the queue to users, so that nobody gets in whom Slurm kept out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from rankd.core.model.association import ROOT, Association
from rankd.core.slurm.partition import Access, Partition
from rankd.core.slurm.reading import Reading

EVERYONE = "*"
NOBODY = " "
"""An access list for administrators only."""

_USER = re.compile(r"[^\s,*\x00-\x1f\x7f]{1,256}")
_GROUP = re.compile(r"[_a-zA-Z][a-zA-Z0-9_:.@/-]*")
_OPEN_IT = "write users and groups into its submitacl to open it"


class Members(msgspec.Struct, frozen=True, kw_only=True):
    """Who is in which account, and who may use which QoS.

    ``accounts_of``: by user, the accounts with those above them. ``may_use``: by QoS, None if all may use it.
    """

    accounts_of: Mapping[str, tuple[frozenset[str], ...]] = {}
    may_use: Mapping[str, frozenset[str] | None] = {}


def members(associations: Iterable[Association], may_use: Mapping[str, frozenset[str] | None]) -> Members:
    """The users of the tree. Each association of a user is one set: its account and all accounts above."""
    every = list(associations)
    parents = {one.account: one.parent or ROOT for one in every if one.user is None}
    found: dict[str, list[frozenset[str]]] = {}
    for one in every:
        if one.user is not None:
            found.setdefault(one.user, []).append(_line_of(one.account, parents))
    return Members(accounts_of={user: tuple(lines) for user, lines in found.items()}, may_use=may_use)


def _line_of(account: str, parents: Mapping[str, str]) -> frozenset[str]:
    line = {account}
    while account in parents and parents[account] not in line:
        account = parents[account]
        line.add(account)
    return frozenset(line)


def submit_list(partition: Partition, known: Members, reading: Reading) -> str:
    """The text of ``submitacl``. What it can't say gets a remark."""
    access, asked = partition.access, _Remarks(partition, reading)
    if access.closed:
        asked.add(f"{', '.join(access.closed)}: the queue is open to administrators only; {_OPEN_IT}")
        return NOBODY
    by_account = _by_account(access, known, asked)
    if by_account is not None and access.groups is not None:
        asked.add(f"AllowGroups and rules about accounts can't be combined, so the queue is closed; {_OPEN_IT}")
        return NOBODY
    by_qos = _by_qos(access, known, asked)
    if access.groups is not None:
        return _list_of_groups(access.groups, asked)
    if by_account is None and by_qos is None:
        return EVERYONE
    users = by_account if by_qos is None else by_qos if by_account is None else by_account & by_qos
    return _list_of_users(users or frozenset(), asked)


class _Remarks:
    def __init__(self, partition: Partition, reading: Reading) -> None:
        self._partition, self._reading = partition, reading

    def add(self, message: str) -> None:
        self._reading.remark(self._partition.line, f"partition '{self._partition.name}': {message}")


def _by_account(access: Access, known: Members, asked: _Remarks) -> frozenset[str] | None:
    """The users whom rules about accounts allow; None if there are none."""
    title, names = ("AllowAccounts", access.accounts) if access.accounts else ("DenyAccounts", access.denied_accounts)
    if not names:
        return None
    shown = f"{title}={','.join(names)}"[:200]
    if not known.accounts_of:
        asked.add(f"{shown}: give the output of `sacctmgr dump` as well; until then the queue is closed; {_OPEN_IT}")
        return frozenset()
    listed, denies = frozenset(names), title == "DenyAccounts"
    users = frozenset(
        user
        for user, lines in known.accounts_of.items()
        if any(line.isdisjoint(listed) if denies else not line.isdisjoint(listed) for line in lines)
    )
    accounts = "other accounts" if denies else "these accounts and of accounts below them"
    asked.add(
        f"{shown}: its submitacl has the {len(users)} users of {accounts}. They may charge any account of theirs"
        " there. Add new users to the list"
    )
    return users


def _by_qos(access: Access, known: Members, asked: _Remarks) -> frozenset[str] | None:
    """The users who may use a QoS that the rules allow; None if all users may, or if there is no such rule."""
    title, names = ("AllowQos", access.qos) if access.qos else ("DenyQos", access.denied_qos)
    if not names:
        return None
    allowed = set(names) if title == "AllowQos" else set(known.may_use) - set(names)
    asked.add(
        f"{title}={','.join(names)[:200]}: a queue can't ask for a QoS, so its jobs may have any QoS that their users"
        " may use; restrict the QoS itself ([[qos]] users, groups)"
    )
    lists = [known.may_use[name] for name in sorted(allowed) if name in known.may_use]
    if None in lists:
        return None
    return frozenset().union(*(one for one in lists if one is not None))


def _list_of_users(users: Iterable[str], asked: _Remarks) -> str:
    named = [user for user in sorted(users) if _USER.fullmatch(user)]
    if left := [user for user in users if not _USER.fullmatch(user)]:
        asked.add(f"{len(left)} users are left out: an access list can't have a name with blanks, ',' or '*'")
    return ",".join(named) or NOBODY


def _list_of_groups(groups: Iterable[str], asked: _Remarks) -> str:
    named = [group for group in groups if _GROUP.fullmatch(group)]
    if left := [group for group in groups if not _GROUP.fullmatch(group)]:
        asked.add(f"AllowGroups: {', '.join(left)[:200]}: an access list can't have a group with this name")
    return f" {','.join(named)}" if named else NOBODY
