"""Whether an agent's credentials are its own: those of its node, in a file that jobs can't read."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from rankd.core.errors import Refused
from rankd.identity.site import Role

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_private(creds: Path) -> None:
    """Check that only its owner can read the file. A process that reads it can act as the node.

    Raises:
        Refused: ``open_credentials``: others can read it.
    """
    try:
        mode = creds.stat().st_mode
    except OSError:  # reading it says what is wrong
        return
    if mode & OTHERS:
        message = f"other users, and so jobs, can read the credentials in {creds} (mode {stat.S_IMODE(mode):04o})"
        raise Refused("open_credentials", f"{message}: chmod 600 {creds}", "creds")


def check_role(role: str | None, name: str, nodes: Sequence[str], creds: Path) -> None:
    """Check that the credentials let an agent speak for these nodes. The broker would answer others with silence.

    ``role`` None: the credentials do not say it, so somebody else has made them.

    Raises:
        Refused: ``wrong_node``: they are those of another node, or of a user.
    """
    if role in (None, Role.SERVICES) or (role == Role.NODE and list(nodes) == [name]):
        return
    meant = f"node '{nodes[0]}'" if len(nodes) == 1 else f"{len(nodes)} nodes, from '{nodes[0]}' on"
    message = f"the credentials in {creds} are those of {role} '{name}', and this agent represents {meant}"
    if role == Role.NODE and len(nodes) == 1:
        message += f"; start it with --name {name}"
    raise Refused("wrong_node", f"{message}; or get others: rankd auth creds --node {nodes[0]}", "creds", status=403)
