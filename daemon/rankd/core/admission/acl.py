"""Who may submit to a queue: access lists in YuniKorn's format, ``user1,user2 group1,group2`` or ``*``.

A user may submit to a queue if a list of that queue, or of any queue above it, contains the user or one of the user's
groups. Both ``submitacl`` and ``adminacl`` count. An empty list contains no users. Source: YuniKorn, "ACLs"; its core
checks the same two lists. Where we differ: YuniKorn refuses everyone if there is no list. Here, a partition without
any list is open to all users; the first list of a partition closes all queues of it to users who are not listed.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

EVERYONE = "*"


class Acl(msgspec.Struct, frozen=True):
    """The users and groups with access."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    everyone: bool = False

    def allows(self, user: str, groups: Collection[str]) -> bool:
        """Whether this user, who is in these groups, has access."""
        return self.everyone or user in self.users or not self.groups.isdisjoint(groups)

    def with_more(self, other: Acl) -> Acl:
        """The union of both lists."""
        if self.everyone or other == NOBODY:
            return self
        return Acl(self.users | other.users, self.groups | other.groups, other.everyone)


NOBODY = Acl()


def parse_acl(text: str) -> Acl:
    """Parse the text of a list, which was checked before. A text that begins with a blank contains groups only.

    >>> sorted(parse_acl("alice,bob dev").users), sorted(parse_acl(" dev").groups), parse_acl("* ").everyone
    (['alice', 'bob'], ['dev'], True)
    """
    fields = text.split()
    if text[:1].isspace():
        fields = ["", *fields]
    lists = [frozenset(name for name in field.split(",") if name) for field in fields]
    users, groups = (*lists, frozenset(), frozenset())[:2]
    if EVERYONE in (*fields, text.strip()):
        return Acl(everyone=True)
    return Acl(users, groups)
