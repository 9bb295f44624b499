"""Which user of this machine a job runs as."""

from __future__ import annotations

import os
import pwd
from typing import Literal

import msgspec

from rankd.core.errors import Refused
from rankd.services.keeper.proc import Identity

AGENT: Literal["agent"] = "agent"
SUBMITTER: Literal["submitter"] = "submitter"
NO_SUCH_USER, ROOT_REFUSED, OWNER_ONLY = "no_such_user", "root_refused", "owner_only"


def usual_mode() -> Literal["agent", "submitter"]:
    """The default of ``run_as``: ``submitter`` if the agent is root, else ``agent``."""
    return SUBMITTER if os.geteuid() == 0 else AGENT


class RunAs(msgspec.Struct, frozen=True, kw_only=True):
    """The rule of an agent: which user runs the jobs.

    ``agent``: all jobs run as the agent's own user. ``submitter``: a job runs as the user who submitted it, which needs
    root. If that user does not exist on this machine, the job runs as ``otherwise``; without ``otherwise`` it does not
    run. No job runs as root.

    ``owner`` is the user who started this agent, with the services, by ``rankd up``. With ``submitter``, the owner's
    jobs run with the agent's own rights, also as root: the intake accepts root's jobs from root itself only. An agent
    that is not root then runs the owner's jobs and no others.
    """

    mode: Literal["agent", "submitter"] = AGENT
    otherwise: str | None = None
    owner: str | None = None

    @property
    def gives_users_rights(self) -> bool:
        """Whether this agent runs jobs as other users than its own."""
        return self.mode == SUBMITTER and os.geteuid() == 0

    def check(self) -> None:
        """Check that this agent can follow the rule.

        Raises:
            Refused: ``usage``: only root can run jobs as their submitters.
            Refused: ``no_such_user``, ``root_refused``: ``otherwise`` cannot be used.
        """
        if self.mode == SUBMITTER and os.geteuid() != 0 and self.owner is None:
            raise Refused("usage", "only root can run jobs as their submitters; start the agent as root", "run_as")
        if self.otherwise is not None:
            _identity(self.otherwise)

    def statement(self) -> str:
        """The rule as a sentence for the log."""
        if self.mode == AGENT:
            return f"jobs of all users run as user {own_name()}"
        if os.geteuid() != 0:
            return f"jobs of '{self.owner}' run as user {own_name()}, and jobs of other users do not run"
        other = f"as {self.otherwise}" if self.otherwise else "not at all"
        return f"jobs run as the users who submitted them; those of users unknown here {other}"

    def identity(self, user: str) -> Identity | None:
        """The user that a job of ``user`` runs as; None means the agent's own user.

        Raises:
            Refused: ``no_such_user``, ``root_refused``, ``owner_only``.
        """
        if self.mode == AGENT:
            return None
        if os.geteuid() != 0:
            self._check_owner(user)
            return None
        try:
            return _identity(user, may_be_root=user == self.owner)
        except Refused:
            if self.otherwise is None:
                raise
        return _identity(self.otherwise)

    def _check_owner(self, user: str) -> None:
        if user != self.owner:
            message = (
                f"jobs of '{user}' do not run on this node: '{self.owner}', who is not root, has started its agent;"
            )
            message += f" submit the job as '{self.owner}', or let root start rankd"
            raise Refused(OWNER_ONLY, message, "user")


def _identity(user: str, *, may_be_root: bool = False) -> Identity:
    try:
        entry = pwd.getpwnam(user)
    except (KeyError, ValueError):
        message = f"there is no user '{user}' on this node, and jobs run as their users here; ask its administrator"
        message += f" to add '{user}', or to start the agent with --otherwise-as USER, and submit the job again"
        raise Refused(NO_SUCH_USER, message, "user") from None
    if entry.pw_uid == 0 and not may_be_root:
        message = f"jobs of '{user}' do not run on this node: it is root, and jobs run as their users here; submit the"
        raise Refused(ROOT_REFUSED, f"{message} job as another user (--as USER)", "user")
    groups = sorted(set(os.getgrouplist(user, entry.pw_gid)))
    return Identity(name=user, uid=entry.pw_uid, gid=entry.pw_gid, groups=groups)


def account_variables(identity: Identity) -> dict[str, str]:
    """The environment variables that a login sets."""
    entry = pwd.getpwuid(identity.uid)
    return {"HOME": entry.pw_dir, "USER": identity.name, "LOGNAME": identity.name, "SHELL": entry.pw_shell}


def home_of(identity: Identity) -> str:
    """The home directory from the user database. Only a process of that user checks that it exists."""
    return pwd.getpwuid(identity.uid).pw_dir


def own_name() -> str:
    """The name of the agent's own user; the number where this machine knows no name for it."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
