"""The site of a ``rankd up``: its secret, the credentials of its processes, and what its broker is told of it."""

from __future__ import annotations

from pathlib import Path

from rankd.identity.credentials import write_private
from rankd.identity.site import Role, Site, open_site, read_site
from rankd.identity.trusted_node import read_trusted
from rankd.services.up.broker import Trust
from rankd.services.up.certificate import certify
from rankd.services.up.command import (
    ADMIN_CREDENTIALS,
    NODE_CREDENTIALS,
    SERVICES_CREDENTIALS,
    UpOptions,
    auth_directory,
)
from rankd.wire.subject import HEAD

DIRECTORY = 0o700


def establish(options: UpOptions, now: float) -> Trust:
    """Make or open the site, and write credentials for the services, the node, and whoever started this.

    Raises:
        Refused: ``bad_secret``; ``bad_certificate``: see :mod:`rankd.services.up.certificate`.
        OSError: the directory can't be written.
    """
    directory = auth_directory(options.directory)
    directory.mkdir(mode=DIRECTORY, exist_ok=True)
    certified = certify(options, open_site(directory), directory, now)
    site = read_site(directory)  # with the certificate that belongs into credentials
    for file, role, name in _roles(options):
        _write(site, directory / file, role, name, now)
    accounts = [site.account(role, name, now) for _, role, name in _roles(options)]
    accounts.append(site.account(Role.GATEWAY, HEAD, now))
    accounts += [site.account(Role.NODE, node, now) for node in read_trusted(directory)]
    accounts = list({account.public: account for account in accounts}.values())
    known = {account.public for account in accounts}
    accounts += [account for account in site.barred_accounts(now) if account.public not in known]
    return Trust(site.operator(now), site.account(Role.SYSTEM, "", now), tuple(accounts), certified)


def _roles(options: UpOptions) -> list[tuple[str, Role, str]]:
    """File, role and name of each account that this machine needs from the start."""
    roles = [(SERVICES_CREDENTIALS, Role.SERVICES, ""), (ADMIN_CREDENTIALS, Role.ADMIN, options.admin)]
    if options.local_agent:
        roles.append((NODE_CREDENTIALS, Role.NODE, options.agent_name))
    return roles


def _write(site: Site, path: Path, role: Role, name: str, now: float) -> None:
    write_private(path, site.credentials(role, name, now).text())
