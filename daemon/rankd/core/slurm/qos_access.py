"""Who may use which QoS, from the lists ``QOS=`` of associations: ``+high`` adds to what the account above has.

Slurm looks at the account and the QoS of a job together. A QoS of rankd's has one list of users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rankd.core.model.association import ROOT, Association
from rankd.core.slurm.reading import NOT_SET, Reading

Key = tuple[str, str | None]
"""An account, and a user or None."""


def users_of_qos(
    associations: Iterable[Association], lists: Mapping[Key, str], names: Iterable[str], own: Reading
) -> dict[str, frozenset[str] | None]:
    """The users of each QoS; None if all users may use it. ``lists``: as written; the cluster's is that of root."""
    every = list(associations)
    if not lists:
        return dict.fromkeys(names)
    of_accounts = _of_accounts(every, lists)
    of_users: dict[str, list[frozenset[str]]] = {}
    for one in every:
        if one.user is not None:
            above = of_accounts.get(one.account, of_accounts[ROOT])
            of_users.setdefault(one.user, []).append(_changed(above, lists.get((one.account, one.user), "")))
    if any(len(set(found)) > 1 for found in of_users.values()):
        own.remark(0, "users whose accounts have different QoS may use each of these in all their accounts")
    allowed = {name: frozenset(user for user, own_lists in of_users.items() if any(name in one for one in own_lists))
               for name in names}  # fmt: skip
    return {name: None if len(users) == len(of_users) else users for name, users in allowed.items()}


def _of_accounts(every: Iterable[Association], lists: Mapping[Key, str]) -> dict[str, frozenset[str]]:
    """The QoS of each account. Accounts come after the ones above them, as far as the tree is one."""
    found = {ROOT: _changed(frozenset(), lists.get((ROOT, None), ""))}
    waiting = [one for one in every if one.user is None and one.account != ROOT]
    while waiting:
        later = []
        for one in waiting:
            above = found.get(one.parent or ROOT)
            if above is None:
                later.append(one)
            else:
                found[one.account] = _changed(above, lists.get((one.account, None), ""))
        if len(later) == len(waiting):
            break
        waiting = later
    return found


def _changed(above: frozenset[str], text: str) -> frozenset[str]:
    """A list, after the changes that the text makes to the list above."""
    words = [word.strip() for word in text.split(",") if word.strip().lower() not in NOT_SET]
    if not words:
        return above
    if any(word[0] not in "+-" for word in words):
        above = frozenset()
    added = {word.lstrip("+") for word in words if word[0] != "-"}
    return (above | added) - {word[1:] for word in words if word[0] == "-"}
