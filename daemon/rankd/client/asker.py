"""Who asks, and with which rights."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.client.place import Place
    from rankd.identity.token import ReadClaims

LONGEST_USER = 256
"""The longest name of a user who asks, in characters. The name is part of the request's subject."""


class Asker(NamedTuple):
    """Who asks, and whether as an administrator.

    ``is_claim``: the credentials are an ordinary user's. The intake then decides by its configuration.
    """

    user: str
    admin: bool = False
    is_claim: bool = False

    def subject(self, verb: str) -> str:
        """The subject of requests for ``verb``."""
        from rankd.wire.subject import admin_request, claiming_request, user_request

        if self.admin:
            return (claiming_request if self.is_claim else admin_request)(self.user, verb)
        return user_request(self.user, verb)


def asker_at(place: Place, named: str | None, *, admin: bool) -> Asker:
    """Who asks there, and with which rights. One rule for all commands and programs.

    The user is the one that is named here or by the environment, then the user in the broker's URL or credentials,
    then the login name. Only ``admin`` gives administrator's rights.

    Raises:
        Refused: ``usage``, ``bad_user``: the name is not a valid name of a user.
    """
    refuse_empty_name(named)
    user = named or os.environ.get("RANKD_USER") or _connecting(place) or login_name()
    if len(user) > LONGEST_USER or not user.isprintable():
        raise Refused("bad_user", f"the user who asks has to have 1 to {LONGEST_USER} printable characters", "user")
    return Asker(user, admin, admin and _is_ordinary(place, user))


def refuse_empty_name(named: str | None) -> None:
    """Refuse an empty name of the user who asks, such as from a variable of a script that is not set.

    Raises:
        Refused: ``usage``.
    """
    if named == "":
        raise Refused("usage", "the name of the user who asks is empty; leave it out to ask as yourself", "user")


def _is_ordinary(place: Place, user: str) -> bool:
    """Whether the credentials are this user's own, without an administrator's reach at the broker."""
    claims = _claims(place)
    return claims is not None and claims.role == "user" and claims.name == user


def _claims(place: Place) -> ReadClaims | None:
    """Whom the credentials are for, if there are any."""
    from rankd.identity.credentials import parse_credentials, read_credentials

    if place.creds is not None:
        return read_credentials(place.creds).claims()
    if place.login is not None:
        from rankd.bus.login import log_in

        return parse_credentials(log_in(place.login).creds).claims()
    return None


def _connecting(place: Place) -> str | None:
    """Who the credentials or the broker's URL say connects."""
    if place.creds is not None:
        from rankd.identity.credentials import read_credentials

        return read_credentials(place.creds).claims().name
    if place.login is not None:
        from rankd.bus.login import name_at

        return name_at(place.login).user
    if not place.nats or "@" not in place.nats:
        return None
    from rankd.bus.address import user_in

    return user_in(place.nats)


def login_name() -> str:
    """``$RANKD_USER`` if it is set, otherwise the name of the process's user."""
    return os.environ.get("RANKD_USER") or process_user()


def process_user() -> str:
    """The name of the user who runs this process, as the gateway of this machine finds it."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # containers may run with ids that have no name
        return str(os.getuid())
