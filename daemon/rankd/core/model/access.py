"""Access lists: the users and groups who may use something. Something without a list is open to all users."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class AccessList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The users and groups with access. Both empty: administrators only. The user ``*`` stands for everyone."""

    users: list[str] = []
    groups: list[str] = []


class AccessLists(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lists of priority classes and of accounts, by name. A QoS has its own fields."""

    classes: Mapping[str, AccessList] = {}
    accounts: Mapping[str, AccessList] = {}
