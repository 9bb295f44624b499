"""Who may use which queue, QoS, priority class and account: the one place where access lists are decided.

Something without a list is open to all users, except accounts: without a list, they are open to their own users. A list
adds to the users of its account; for the account of unlisted users, it replaces "everyone". Administrators may use
everything, so nothing here is called for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from rankd.core.admission.acl import EVERYONE, Acl
from rankd.core.admission.queue_entry import QueueEntry
from rankd.core.errors import Refused
from rankd.core.model.access import AccessList, AccessLists
from rankd.core.model.setting import Qos

FIELDS = ("queue", "qos", "priority_class", "account")
"""The fields of a job that access lists are about."""
ROOT = "root"
MOST_NAMED = 5
"""A message names this many users and groups of a list at most."""


class Rights(msgspec.Struct, frozen=True):
    """The access lists of QoS, classes and accounts, by name."""

    qos: Mapping[str, Acl] = {}
    classes: Mapping[str, Acl] = {}
    accounts: Mapping[str, Acl] = {}

    @classmethod
    def of(cls, qos: Iterable[Qos], lists: AccessLists, associated: Iterable[tuple[str, str]] = ()) -> Rights:
        """The rights that a configuration gives. ``associated``: its users (account, user) of accounts."""
        accounts = {name: acl_of(listed) for name, listed in lists.accounts.items()}
        members: dict[str, set[str]] = {name: set() for name in accounts}
        for account, user in associated:
            if account in members:
                members[account].add(user)
        return cls(
            qos={one.name: acl for one in qos if (acl := acl_of_qos(one)) is not None},
            classes={name: acl_of(listed) for name, listed in lists.classes.items()},
            accounts={name: acl.with_more(Acl(users=frozenset(members[name]))) for name, acl in accounts.items()},
        )


class Named(NamedTuple):
    """A job's user with the present groups, and what the job uses. ``priority_class`` is None without a class."""

    user: str
    groups: Sequence[str]
    queue: QueueEntry
    qos: str | None
    priority_class: str | None
    account: str | None


def acl_of(listed: AccessList) -> Acl:
    """The list in the form that is checked."""
    if EVERYONE in listed.users:
        return Acl(everyone=True)
    return Acl(users=frozenset(listed.users), groups=frozenset(listed.groups))


def with_given(lists: AccessLists, given: Mapping[str, AccessList]) -> AccessLists:
    """The lists of the configuration, and those that were given with classes that have none there."""
    return msgspec.structs.replace(lists, classes={**given, **lists.classes})


def acl_of_qos(qos: Qos) -> Acl | None:
    """The list of a QoS; None if it is open to all users."""
    if qos.users is None and qos.groups is None:
        return None
    return acl_of(AccessList(users=qos.users or [], groups=qos.groups or []))


def check_rights(named: Named, rights: Rights, fields: Collection[str] = FIELDS) -> None:
    """Check that this user may use what the job names in these fields.

    Raises:
        Refused: ``queue_access``, ``qos_access``, ``class_access``, ``account_access``, with who may.
    """
    if "queue" in fields:
        _check(named, named.queue.access, "queue_access", "queue", "submit to", named.queue.path, "queue")
    if "qos" in fields and named.qos is not None:
        acl = rights.qos.get(named.qos)
        _check(named, acl, "qos_access", "qos", "use", f"the QoS '{named.qos}'", "QoS")
    if "priority_class" in fields and named.priority_class is not None:
        acl = rights.classes.get(named.priority_class)
        what = f"the priority class '{named.priority_class}'"
        _check(named, acl, "class_access", "priority_class", "use", what, "class")
    if "account" in fields and named.account is not None:
        acl = rights.accounts.get(named.account)
        _check(named, acl, "account_access", "account", "charge", f"the account '{named.account}'", "account")


def _check(named: Named, acl: Acl | None, code: str, field: str, does: str, what: str, other: str) -> None:
    if acl is None or acl.allows(named.user, named.groups):
        return
    as_administrator = "ask an administrator (administrators add --admin)"
    if named.user == ROOT:  # an administrator, but its own jobs are not accepted with --admin
        as_administrator = "move the job there once it is submitted, with `rankd update --admin`"
    message = (
        f"user '{named.user}' may not {does} {what}, which is for {who(acl)}; name another {other}, or"
        f" {as_administrator}"
    )
    raise Refused(code, message, field, status=403)


def who(acl: Acl) -> str:
    """The users and groups of a list in words.

    >>> who(Acl(users=frozenset({"bob", "alice"}), groups=frozenset({"staff"})))
    'the users alice, bob and the group staff'
    >>> who(Acl())
    'administrators only'
    """
    if acl.everyone:
        return "everyone"
    named = [_listed(kind, names) for kind, names in (("user", acl.users), ("group", acl.groups)) if names]
    return " and ".join(named) or "administrators only"


def _listed(kind: str, names: Collection[str]) -> str:
    shown = ", ".join(islice(sorted(names), MOST_NAMED))
    more = len(names) - MOST_NAMED
    return f"the {kind}{'s' if len(names) > 1 else ''} {shown}{f' and {more} more' if more > 0 else ''}"
