"""Whose jobs no node would run: where jobs run as the users who submit them, root's, and perhaps those of strangers.

A node finds out in any case, but only when the job's turn has come. Here the user hears it at once.
"""

from __future__ import annotations

from typing import Literal

from rankd.core.errors import Refused
from rankd.core.near_name import cut

Submitters = Literal["any", "users", "known"]
"""``any``: jobs of all. ``users``: not of root. ``known``: only of users in the head's user database, not root."""

ROOT_UID, ROOT = 0, "root"


def unrunnable(user: str, uid: int | None, rule: Submitters) -> Refused | None:
    """Why a job of this user is refused; None if it is not. ``uid`` None: the head's user database has no such user.

    >>> unrunnable("alice", 1000, "known") is None
    True
    >>> unrunnable("root", 0, "users").code
    'root_refused'
    """
    if rule == "any":
        return None
    if uid == ROOT_UID or user == ROOT:
        message = f"jobs of '{cut(user)}' do not run: nodes run jobs as the users who submit them, and none as root"
        return Refused("root_refused", f"{message}; submit as another user (--as USER)", "user", status=403)
    if rule == "known" and uid is None:
        message = f"this machine knows no user '{cut(user)}', and nodes run jobs as the users who submit them"
        message += "; ask an administrator for an account on the machines, or submit as another user"
        return Refused("no_such_user", message, "user", status=403)
    return None


def stricter(rule: Submitters, *, as_submitters: bool) -> Submitters:
    """The rule in force. ``as_submitters``: it is known that jobs run as their users, so root's never run."""
    return "users" if as_submitters and rule == "any" else rule
