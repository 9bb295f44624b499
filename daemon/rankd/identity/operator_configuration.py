"""The accounts of a site for a NATS server in operator mode: signed by that server's own operator.

The same accounts as :mod:`rankd.identity.static_configuration` prints, as signed tokens. The operator's key is used and
not kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rankd.core.errors import Refused
from rankd.identity.key import Key, key_of_seed
from rankd.identity.site import Account, Role, Site
from rankd.identity.static_configuration import Member

_SEED = re.compile(r"\bSO[A-Z2-7]{56}\b")


def read_operator(text: str) -> Key:
    """The key of an operator, from a file as ``nsc`` keeps it.

    Raises:
        Refused: ``bad_secret``: it holds no operator's seed.
    """
    try:
        return key_of_seed(found[0] if (found := _SEED.search(text)) else "")
    except ValueError:
        message = "this file does not hold the seed of an operator, which begins with SO; nsc keeps it as O….nk"
        raise Refused("bad_secret", message, "operator_key") from None


def signed_accounts(site: Site, members: Sequence[Member], operator: Key, now: float) -> list[Account]:
    """The services' account and that of sessions, then those of the members."""
    whose = [(Role.SERVICES, ""), (Role.SESSIONS, ""), *members]
    site = site.with_nodes(name for role, name in members if role is Role.NODE)
    return [site.account(role, name, now, operator) for role, name in whose]


def preload(accounts: Sequence[Account]) -> str:
    """The block ``resolver_preload`` of the server's configuration file."""
    lines = [f"  {account.public}: {account.token}" for account in accounts]
    return "\n".join(["resolver_preload {", *lines, "}", ""])
