"""Who asks by a command, from its options; and the credentials with which a command asks an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.place import find
from rankd.client.asker import Asker, asker_at

if TYPE_CHECKING:
    import argparse

    from rankd.client.place import Place
    from rankd.identity.credentials import Source

AGENT_CREDENTIALS_S = 60.0
"""How long credentials last with which a command asks an agent for its health."""


def asker(arguments: argparse.Namespace) -> Asker:
    """Who asks, and with which rights: see :func:`rankd.client.asker.asker_at`.

    Raises:
        Refused: ``usage``, ``bad_user``: the name is not a valid name of a user.
    """
    return asker_at(find(arguments), getattr(arguments, "asker", None), admin=getattr(arguments, "admin", False))


def credentials_for_agent(place: Place, agent: str) -> Source | None:
    """Credentials that reach an agent, which answers in its node's account only; None without the site's secret.

    The agent of simulated nodes has the services' account.
    """
    import time

    from rankd.identity.site import Role, read_site
    from rankd.services.up.command import SIMULATED

    if place.creds is None:
        return None
    try:
        site = read_site(place.creds.parent)
    except OSError:
        return None
    role, name = (Role.SERVICES, "") if agent == SIMULATED else (Role.NODE, agent)
    credentials = site.credentials(role, name, time.time(), AGENT_CREDENTIALS_S)
    return lambda: credentials
