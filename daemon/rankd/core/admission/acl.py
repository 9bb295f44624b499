"""Who may submit to a queue: access lists in YuniKorn's format, ``user1,user2 group1,group2`` or ``*``.

Access adds up down a path: who is named at a queue or at any above it may submit, by ``submitacl`` or by
``adminacl``. A list that is empty names nobody. Source: YuniKorn, "ACLs"; its core checks the same two lists.
Where we differ: YuniKorn lets nobody in where no list says so; here that begins with the first list that a
partition has. A partition without any is open to all.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

EVERYONE = "*"


class Acl(msgspec.Struct, frozen=True):
    """Users and groups who are let in."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    everyone: bool = False

    def allows(self, user: str, groups: Collection[str]) -> bool:
        """Whether this user, who is in these groups, is let in."""
        return self.everyone or user in self.users or not self.groups.isdisjoint(groups)

    def with_more(self, other: Acl) -> Acl:
        """Everyone whom either lets in."""
        if self.everyone or other == NOBODY:
            return self
        return Acl(self.users | other.users, self.groups | other.groups, other.everyone)


NOBODY = Acl()


def parse_acl(text: str) -> Acl:
    """The list that a checked text states; a text that begins with a blank names groups only.

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
