"""Whose jobs no node would run: root's, those of strangers, and those of others where only the owner's jobs run.

A node finds out in any case, but only when the job's turn has come. Here the user hears it at once.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rankd.core.errors import Refused
from rankd.core.near_name import cut

Submitters = Literal["any", "users", "known"]
"""``any``: jobs of all. ``users``: not of root. ``known``: only of users in the head's user database, not root."""

ROOT_UID, ROOT = 0, "root"


class LocalRights(NamedTuple):
    """The node beside the services, where each job runs with the rights of the user who submits it.

    ``owner``: the user who started it. ``is_root``: root did, so that jobs of all users can run there. Otherwise only
    the owner's jobs can.
    """

    owner: str
    is_root: bool


class Candidate(NamedTuple):
    """A job's user. ``uid``: by the head's user database, None if it has no such user.

    ``is_at_head``: the kernel of the head has named this user to the gateway there, as the one who asks.
    """

    user: str
    uid: int | None
    is_at_head: bool = False


def unrunnable(who: Candidate, rule: Submitters, local: LocalRights | None = None) -> Refused | None:
    """Why a job of this user is refused; None if it is not. ``local`` None: jobs may run with other rights.

    Root's jobs run only if root itself asks at the socket of the head, and has started rankd. No credentials are
    enough, so no administrator of rankd gets root's rights by a job.

    >>> unrunnable(Candidate("alice", 1000), "known") is None
    True
    >>> unrunnable(Candidate("root", 0), "users").code
    'root_refused'
    >>> unrunnable(Candidate("root", 0, is_at_head=True), "any", LocalRights("root", is_root=True)) is None
    True
    """
    if local is not None and not local.is_root and who.user != local.owner:
        return _owner_only(who.user, local.owner)
    if who.uid == ROOT_UID or who.user == ROOT:
        is_allowed = rule == "any" if local is None else who.is_at_head and who.user == local.owner
        return None if is_allowed else _root_refused(who.user, local)
    if rule == "known" and who.uid is None:
        message = f"this machine knows no user '{cut(who.user)}', and nodes run jobs as the users who submit them"
        message += "; ask an administrator for an account on the machines, or submit as another user"
        return Refused("no_such_user", message, "user", status=403)
    return None


def _owner_only(user: str, owner: str) -> Refused:
    message = f"jobs of '{cut(user)}' do not run here: '{cut(owner)}', who is not root, has started this rankd, and its"
    message += f" jobs would have the rights of '{cut(owner)}'; submit as '{cut(owner)}', or let root start rankd, or"
    return Refused("owner_only", f"{message} start it with --run-as agent if that is meant", "user", status=403)


def _root_refused(user: str, local: LocalRights | None) -> Refused:
    message = f"jobs of '{cut(user)}' do not run: nodes run jobs as the users who submit them, and none as root"
    if local is not None and local.owner == user:
        message = (
            f"jobs of '{cut(user)}' run only if {cut(user)} submits them on the machine of `rankd up`, at its socket:"
        )
        message += " leave out --admin, --as, --user, --nats and --creds"
        return Refused("root_refused", f"{message}, or submit as another user (--as USER)", "user", status=403)
    return Refused("root_refused", f"{message}; submit as another user (--as USER)", "user", status=403)
