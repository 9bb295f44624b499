"""``accounts.yaml``: the account tree with its users and shares, and the members of groups.

accounts:
  - {name: physics, parent: root, shares: 3, users: [{name: alice, shares: 1, default: true}]}
  - {name: optics, access: {groups: [staff]}}
groups:
  - {name: staff, users: [alice]}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec
import yaml

from rankd.config.limit_rule import GROUP_NAME
from rankd.config.settings import convert
from rankd.config.yaml_lines import Unreadable
from rankd.config.yaml_value import load_yaml
from rankd.core.errors import ConfigurationError, Problem
from rankd.core.model.access import AccessList
from rankd.core.model.association import ROOT, Association

FILE = "accounts.yaml"


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    shares: float | Literal["parent"] = 1.0
    priority: int = 0


class _User(_Entry, frozen=True, kw_only=True):
    default: bool = False


class _Account(_Entry, frozen=True, kw_only=True):
    parent: str = ROOT
    users: list[_User] = []
    access: AccessList | None = None


class _Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    users: list[str] = []


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    accounts: list[_Account] = []
    users: list[_User] = []
    groups: list[_Group] = []


class AccountsRead(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file; ``groups`` by user, sorted; ``access`` by account.

    ``group_names``: all groups of the file, including those without users.
    """

    associations: list[Association] = []
    groups: Mapping[str, tuple[str, ...]] = {}
    group_names: frozenset[str] = frozenset()
    access: Mapping[str, AccessList] = {}


def read_accounts(text: str, file: str = FILE) -> AccountsRead:
    """The associations and groups. ``AccountTree.build`` checks whether they make a tree.

    ``users`` at the top level are directly under root.

    Raises:
        ConfigurationError: the file can't be read, or a group is invalid.
    """
    try:
        document = convert(load_yaml(text) or {}, _Document, file)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise ConfigurationError([Problem(file=file, line=line, path="", message=str(error.problem))]) from None
    except Unreadable as error:
        raise ConfigurationError([Problem(file=file, line=error.line, path="", message=error.message)]) from None
    associations = [_user(ROOT, user) for user in document.users]
    for account in document.accounts:
        associations.append(
            Association(account=account.name, parent=account.parent, shares=account.shares, priority=account.priority)
        )
        associations += [_user(account.name, user) for user in account.users]
    return AccountsRead(
        associations=associations,
        groups=_groups_of_users(document.groups, file),
        group_names=frozenset(group.name for group in document.groups),
        access={account.name: account.access for account in document.accounts if account.access is not None},
    )


def _groups_of_users(groups: list[_Group], file: str) -> dict[str, tuple[str, ...]]:
    seen: set[str] = set()
    problems: list[Problem] = []
    of_users: dict[str, set[str]] = {}
    for place, group in enumerate(groups):
        if not GROUP_NAME.fullmatch(group.name):
            message = f"'{group.name}' is not a valid group name; begin with a letter or _ and use no blanks"
            problems.append(Problem(file=file, path=f"groups[{place}].name", message=message))
        if group.name in seen:
            message = f"the group '{group.name}' is listed twice; put its users together"
            problems.append(Problem(file=file, path=f"groups[{place}].name", message=message))
        seen.add(group.name)
        for user in group.users:
            of_users.setdefault(user, set()).add(group.name)
    if problems:
        raise ConfigurationError(problems)
    return {user: tuple(sorted(names)) for user, names in of_users.items()}


def _user(account: str, user: _User) -> Association:
    return Association(
        account=account, user=user.name, shares=user.shares, priority=user.priority, default=user.default
    )
