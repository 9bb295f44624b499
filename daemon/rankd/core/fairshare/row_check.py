"""Checks of a list of associations. All problems are found, not only the first one.

Each check goes through the rows and yields a problem for each fault, with the path ``associations[row].field``. The
checks raise no error and change no row. :meth:`rankd.core.fairshare.tree.AccountTree.build` refuses a list with
problems.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rankd.core.errors import Problem
from rankd.core.model.association import ROOT, Association

Rows = Sequence[Association]


def find_problems(rows: Rows) -> list[Problem]:
    """All problems of all rows, in the order of the rows."""
    parents = account_parents(rows)
    checks = (
        _check_numbers(rows),
        _check_names(rows),
        _check_accounts(rows, parents),
        _check_cycles(rows, parents),
        _check_users(rows, parents),
        _check_defaults(rows),
    )
    found = [pair for check in checks for pair in check]
    return [problem for _, problem in sorted(found, key=lambda pair: pair[0])]


def account_parents(rows: Rows) -> dict[str, str]:
    """The parent's name by account name, without root. If an account has several rows, the first one counts."""
    parents: dict[str, str] = {}
    for row in rows:
        if row.user is None and row.account != ROOT:
            parents.setdefault(row.account, ROOT if row.parent is None else row.parent)
    return parents


def _problem(row: int, field: str, message: str) -> tuple[int, Problem]:
    path = f"associations[{row}].{field}" if field else f"associations[{row}]"
    return row, Problem(path=path, message=message)


def is_amount(value: float) -> bool:
    """Whether a number is valid as shares or usage: finite and at least 0."""
    return 0 <= value < math.inf


def _check_numbers(rows: Rows) -> Iterator[tuple[int, Problem]]:
    for at, row in enumerate(rows):
        if row.shares != "parent" and not is_amount(row.shares):
            yield _problem(
                at,
                "shares",
                f'shares of {_name(row)} are {row.shares}; give a number of at least 0 or "parent"',
            )
        if not is_amount(row.usage):
            yield _problem(at, "usage", f"usage of {_name(row)} is {row.usage}; give a finite number of at least 0")
        if row.usage_at is not None and not math.isfinite(row.usage_at):
            yield _problem(
                at,
                "usage_at",
                f"usage_at of {_name(row)} is {row.usage_at}; give UTC seconds, or leave it out",
            )


def _check_names(rows: Rows) -> Iterator[tuple[int, Problem]]:
    for at, row in enumerate(rows):
        if not row.account:
            yield _problem(at, "account", "the account's name is empty; name the account")
        if row.user == "":
            yield _problem(
                at,
                "user",
                f"the user's name in account '{row.account}' is empty; name the user or leave it out",
            )


def _check_accounts(rows: Rows, parents: dict[str, str]) -> Iterator[tuple[int, Problem]]:
    first: dict[str, int] = {}
    for at, row in enumerate(rows):
        if row.user is not None:
            continue
        if first.setdefault(row.account, at) != at:
            yield _problem(
                at,
                "account",
                f"account '{row.account}' is listed twice, first in row {first[row.account]}; remove one",
            )
        if row.default:
            yield _problem(
                at,
                "default",
                f"account '{row.account}' can't be a default; set default on one of a user's rows",
            )
        if row.account == ROOT:
            yield from _check_root(at, row)
        elif row.parent is not None and row.parent != ROOT and row.parent not in parents:
            yield _problem(
                at,
                "parent",
                f"account '{row.account}' has the unknown parent '{row.parent}'; list it or correct the name",
            )


def _check_root(at: int, row: Association) -> Iterator[tuple[int, Problem]]:
    if row.parent is not None:
        yield _problem(at, "parent", f"account 'root' has the parent '{row.parent}'; root is the top, leave parent out")
    if row.shares == "parent":
        yield _problem(at, "shares", "account 'root' has no parent to share with; give a number or leave shares out")


def _check_cycles(rows: Rows, parents: dict[str, str]) -> Iterator[tuple[int, Problem]]:
    """One problem for each cycle, at the row of its first listed account."""
    row_of = {row.account: at for at, row in reversed(list(enumerate(rows))) if row.user is None}
    seen: set[str] = set()
    for start in parents:
        path: dict[str, None] = {}
        name = start
        while name in parents and name not in seen and name not in path:
            path[name] = None
            name = parents[name]
        seen.update(path)
        if name in path:
            members = list(path)[list(path).index(name) :]
            shown = " -> ".join([*members[:8], *(["…"] if len(members) > 8 else []), name])
            yield _problem(
                min(row_of[member] for member in members),
                "parent",
                f"accounts are their own ancestors: {shown}; give one of them a parent that leads to root",
            )


def _check_users(rows: Rows, parents: dict[str, str]) -> Iterator[tuple[int, Problem]]:
    first: dict[tuple[str, str], int] = {}
    for at, row in enumerate(rows):
        if row.user is None:
            continue
        earlier = first.setdefault((row.account, row.user), at)
        if earlier != at:
            yield _problem(at, "user", f"{_name(row)} is listed twice, first in row {earlier}; remove one")
        if row.account != ROOT and row.account not in parents:
            yield _problem(
                at,
                "account",
                f"user '{row.user}' is in the unknown account '{row.account}'; list it or correct the name",
            )
        if row.parent not in {None, row.account, parents.get(row.account)}:
            yield _problem(
                at,
                "parent",
                f"{_name(row)} has the parent '{row.parent}'; a user's parent is its account; leave it out",
            )


def _check_defaults(rows: Rows) -> Iterator[tuple[int, Problem]]:
    first: dict[str, int] = {}
    for at, row in enumerate(rows):
        if row.user is None or not row.default:
            continue
        earlier = first.setdefault(row.user, at)
        if earlier != at:
            yield _problem(
                at,
                "default",
                f"user '{row.user}' has two defaults, '{rows[earlier].account}', '{row.account}'; keep one",
            )


def _name(row: Association) -> str:
    if row.user is None:
        return f"account '{row.account}'"
    return f"user '{row.user}' in account '{row.account}'"
