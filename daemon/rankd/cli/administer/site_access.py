"""What the commands of an administrator do with a site: find it, open it, tell the broker of an account."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from rankd.client.asker import LONGEST_USER
from rankd.core.errors import Refused
from rankd.services.up.command import ADMIN_CREDENTIALS, AUTH_DIRECTORY

if TYPE_CHECKING:
    from pathlib import Path

    from rankd.client.place import Place
    from rankd.identity.site import Role, Site


LATER = "the others get this from them within seconds of their return"


def site_directory(place: Place) -> Path:
    """Where the site's secret is: in the directory of a ``rankd up``, whether it runs or not.

    Raises:
        Refused: ``not_permitted``: this user did not start it, or it gives out no credentials.
    """
    if place.creds is not None:
        if os.access(place.creds.parent / "site.key", os.R_OK):
            return place.creds.parent
        message = f"only the user who started rankd can do this, on its machine: {place.creds} is not of its directory"
        raise Refused("not_permitted", message, "dir", status=403)
    if place.login is not None:
        message = "only the user who started this rankd can give credentials or revoke them"
        raise Refused("not_permitted", message, "dir", status=403)
    if place.nats is None and place.directory is not None and (place.directory / AUTH_DIRECTORY).is_dir():
        return place.directory / AUTH_DIRECTORY
    message = "this rankd gives out no credentials: it was started with --no-auth, or with a broker of its own"
    raise Refused("not_permitted", message, "dir", status=403)


def open_site_in(directory: Path) -> Site:
    """The site with this secret.

    Raises:
        Refused: ``not_permitted``: it can't be read.
    """
    from rankd.identity.site import read_site

    try:
        return read_site(directory)
    except OSError as error:
        message = f"the site's secret in {directory} can't be read: {error.strerror or error}"
        raise Refused("not_permitted", message, "dir", status=403) from None


def check_user(name: str) -> None:
    """Check the name of a user.

    Raises:
        Refused: ``bad_user``.
    """
    if not 0 < len(name) <= LONGEST_USER or not name.isprintable():
        raise Refused("bad_user", f"the name of a user has to have 1 to {LONGEST_USER} printable characters", "user")


def owner_of(directory: Path) -> str:
    """The user who started this rankd, and is always an administrator."""
    from rankd.identity.credentials import read_credentials

    return read_credentials(directory / ADMIN_CREDENTIALS).claims().name


def role_of_user(directory: Path, user: str) -> Role:
    """An administrator, or a user.

    Raises:
        Refused: ``bad_user``: the name can't be one; ``bad_register``.
    """
    from rankd.identity.register_file import read_register
    from rankd.identity.site import Role

    check_user(user)
    return Role.ADMIN if user == owner_of(directory) else read_register(directory).role_of(user)


def is_known(directory: Path, site: Site, role: Role, name: str) -> bool:
    """Whether this user or node was ever given credentials or invited, or is a user of this machine.

    Those of before there was a register are known by their account, which the broker keeps in a file. Users of this
    machine may have asked at the login socket, which leaves no trace in the register.
    """
    from rankd.identity.register_file import read_register
    from rankd.identity.site import Role

    if role is Role.USER and _is_user_here(name):
        return True
    account = directory.parent / "nats" / "accounts" / f"{site.account_of(role, name)}.jwt"
    if read_register(directory).member(role, name) is not None or site.revoked_at(role, name) is not None:
        return True
    return account.exists()


def _is_user_here(name: str) -> bool:
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def make_known(place: Place, site: Site, role: Role, name: str) -> None:
    """Let a running broker know the account; one that does not run learns of it at its start.

    A node is also made known to the account of sessions, so that users reach its jobs.

    Raises:
        Unavailable: it does not answer.
    """
    from rankd.client.session import run_quietly
    from rankd.identity.site import Role

    if (url := place.nats) is None:
        return

    async def update() -> None:
        from rankd.bus.account_update import system_bus, update_accounts

        async with system_bus(url, site, tls=place.tls) as system:
            accounts = [site.account(role, name, now := time.time())]
            if role is Role.NODE:
                accounts.append(site.with_nodes([name]).account(Role.SESSIONS, "", now))
            known = await update_accounts(system, accounts)
            if known < len(system.urls):
                print(f"rankd: {known} of {len(system.urls)} brokers answered; {LATER}", file=sys.stderr)

    run_quietly(url, update)
