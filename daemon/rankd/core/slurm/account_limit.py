"""``GrpTRES`` and ``GrpJobs`` of an account: a limit for the group of its users.

A group's limit counts all jobs of its users. So it equals the account's only if these users have no other account.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rankd.core.slurm.limit import GroupLimit, read_limit
from rankd.core.slurm.reading import Limit, Reading

_GROUP = re.compile(r"[_a-zA-Z][a-zA-Z0-9_:.@/-]*")
_BY_HAND = "write a limit for a group of its users into queues.yaml"


def account_limits(
    accounts_of: Mapping[str, tuple[frozenset[str], ...]],
    of_accounts: Iterable[tuple[Limit, Reading]],
    allowed_groups: Iterable[str],
) -> tuple[GroupLimit, ...]:
    """The limits of accounts. What can't be kept gets a remark.

    ``accounts_of``: by user, each of the user's accounts with those above it. ``allowed_groups``: groups of the machine
    in access lists. A user whom accounts.yaml puts into a group has no groups of the machine, so both can't be used.
    """
    found: dict[str, GroupLimit] = {}
    of_machine = ", ".join(sorted(set(allowed_groups)))[:200]
    for limit, reading in of_accounts:
        users = tuple(sorted(user for user, lines in accounts_of.items() if any(limit.owner in one for one in lines)))
        if reason := _obstacle(limit.owner, users, accounts_of, of_machine):
            message = f"account '{limit.owner}': {limit} is left out, since {reason}; {_BY_HAND}"
            reading.remark(limit.line, message)
            continue
        known = found.get(limit.owner, GroupLimit(limit.owner, users, {}))
        amounts, jobs = read_limit(limit, f"account '{limit.owner}'", reading, (known.amounts, known.jobs))
        if amounts or jobs:
            found[limit.owner] = GroupLimit(limit.owner, users, amounts, jobs)
    return tuple(found.values())


def _obstacle(
    account: str, users: tuple[str, ...], accounts_of: Mapping[str, tuple[frozenset[str], ...]], of_machine: str
) -> str:
    """Why the account's limit can't be that of a group; empty if it can."""
    if not _GROUP.fullmatch(account):
        return "a group can't have this name"
    if not users:
        return "the account has no users"
    if of_machine:
        return f"its users would lose their groups of the machine, which access lists name ({of_machine})"
    others = [user for user in users if any(account not in one for one in accounts_of[user])]
    return f"{', '.join(others[:5])} {'has' if len(others) == 1 else 'have'} other accounts too" if others else ""
