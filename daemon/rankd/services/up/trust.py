"""The site of a ``rankd up``: its secret, the credentials of its processes, and what its broker is told of it."""

from __future__ import annotations

from pathlib import Path

from rankd.identity.authority import issue
from rankd.identity.credentials import (
    CA_FILE,
    NOTIFIER_CREDENTIALS,
    SERVICES_CREDENTIALS,
    WEB_CREDENTIALS,
    WEB_GATEWAY_CREDENTIALS,
    read_credentials,
    write_private,
)
from rankd.identity.register import Register, given
from rankd.identity.register_file import change_register, read_register
from rankd.identity.site import KEY_FILE, Account, Role, Site, open_site, read_site
from rankd.identity.trusted_node import read_trusted
from rankd.services.up.broker import Trust
from rankd.services.up.certificate import certify
from rankd.services.up.command import (
    ADMIN_CREDENTIALS,
    NODE_CREDENTIALS,
    UpOptions,
    auth_directory,
)
from rankd.wire.subject import HEAD, WEB

DIRECTORY = 0o700


def establish(options: UpOptions, now: float) -> Trust:
    """Make or open the site, and write credentials for the services, the node, and the user who started this.

    Raises:
        Refused: ``bad_secret``; ``bad_certificate``: see :mod:`rankd.services.up.certificate`.
        OSError: the directory can't be written.
    """
    directory = auth_directory(options.directory)
    certified = certify(options, open_directory(directory), directory, now)
    site = read_site(directory)  # with the certificate that belongs into credentials
    write_credentials(site, directory, _roles(options), now)
    _write_narrow(site, directory, now)
    accounts = [site.account(role, name, now) for _, role, name in _roles(options)]
    accounts += [site.account(Role.GATEWAY, gateway, now) for gateway in (HEAD, WEB)]
    accounts.append(read_site(directory).account(Role.SESSIONS, "", now))
    accounts += [site.account(Role.NODE, node, now) for node in read_trusted(directory)]
    accounts += _unknown_members(options.directory, site, now)
    accounts = list({account.public: account for account in accounts}.values())
    known = {account.public for account in accounts}
    accounts.append(site.account(Role.ENROLMENT, "", now))
    accounts += [account for account in site.barred_accounts(now) if account.public not in known]
    return Trust(site.operator(now), site.account(Role.SYSTEM, "", now), tuple(accounts), certified)


def _unknown_members(directory: Path, site: Site, now: float) -> list[Account]:
    """Users and nodes of the register whom the broker does not know: they were added while others were in use."""
    members = read_register(auth_directory(directory)).members.values()
    keys = ((one, site.account_of(Role(one.role), one.name)) for one in members)
    stored = directory / "nats" / "accounts"
    return [site.account(Role(one.role), one.name, now) for one, key in keys if not (stored / f"{key}.jwt").exists()]


def establish_cluster(directory: Path, admin: str, now: float) -> Trust:
    """As :func:`establish`, for brokers that run without ``rankd up``: also every user and node of the register.

    Raises:
        Refused: ``bad_secret``, ``bad_register``.
        OSError: the directory can't be written.
    """
    auth = auth_directory(directory)
    site = open_directory(auth)
    ca = issue(site.authority_seed(), [], now).ca
    write_private(auth / CA_FILE, ca)
    site = read_site(auth)
    roles = [(SERVICES_CREDENTIALS, Role.SERVICES, ""), (ADMIN_CREDENTIALS, Role.ADMIN, admin)]
    write_credentials(site, auth, roles, now)
    _write_narrow(site, auth, now)
    members = [(Role(one.role), one.name) for one in read_register(auth).members.values()]
    whose = [(role, name) for _, role, name in roles] + [(Role.GATEWAY, HEAD), (Role.GATEWAY, WEB), *members]
    whose += [(Role.ENROLMENT, ""), (Role.SESSIONS, "")]
    accounts = [site.account(role, name, now) for role, name in whose]
    accounts += [site.account(Role.NODE, node, now) for node in read_trusted(auth)] + site.barred_accounts(now)
    known = {account.public: account for account in reversed(accounts)}
    return Trust(site.operator(now), site.account(Role.SYSTEM, "", now), tuple(reversed(known.values())))


def _roles(options: UpOptions) -> list[tuple[str, Role, str]]:
    """File, role and name of each account that this machine needs from the start."""
    roles = [(SERVICES_CREDENTIALS, Role.SERVICES, ""), (ADMIN_CREDENTIALS, Role.ADMIN, options.admin)]
    if options.local_agent:
        roles.append((NODE_CREDENTIALS, Role.NODE, options.agent_name))
    return roles


def initialize(directory: Path, admin: str, now: float) -> tuple[str, bool]:
    """Set a site up that does not run yet. Returns its administrator, and whether the site is new.

    Raises:
        Refused: ``bad_secret``, ``bad_credentials``: what is there can't be read.
        OSError: the directory can't be written.
    """
    directory.mkdir(mode=DIRECTORY, parents=True, exist_ok=True)
    auth = auth_directory(directory)
    is_new = not (auth / KEY_FILE).exists()
    site = open_directory(auth)
    if (auth / ADMIN_CREDENTIALS).exists():
        return read_credentials(auth / ADMIN_CREDENTIALS).claims().name, is_new
    _write_narrow(site, auth, now)
    write_credentials(
        site, auth, [(SERVICES_CREDENTIALS, Role.SERVICES, ""), (ADMIN_CREDENTIALS, Role.ADMIN, admin)], now
    )
    return admin, is_new


def open_directory(directory: Path) -> Site:
    """The site in this directory, which is made for its owner only; a new site if there is none.

    Raises:
        Refused: ``bad_secret``.
        OSError: the directory can't be written.
    """
    directory.mkdir(mode=DIRECTORY, parents=True, exist_ok=True)
    return open_site(directory)


def _write_narrow(site: Site, directory: Path, now: float) -> None:
    """Write the credentials of the services that reach little: the notifier, and the page."""
    write_private(directory / NOTIFIER_CREDENTIALS, site.notifier(now).text())
    write_private(directory / WEB_CREDENTIALS, site.web(now).text())
    write_private(directory / WEB_GATEWAY_CREDENTIALS, site.credentials(Role.GATEWAY, WEB, now).text())


def write_credentials(site: Site, directory: Path, roles: list[tuple[str, Role, str]], now: float) -> None:
    """Write files of credentials that last without an end, and register users and nodes.

    Raises:
        OSError: the directory can't be written.
    """

    def registered(register: Register) -> Register:
        for _, role, name in roles:
            if role in (Role.ADMIN, Role.NODE):
                register = given(register, role, name, now, None)
        return register

    change_register(directory, registered)
    for file, role, name in roles:
        write_private(directory / file, site.credentials(role, name, now).text())
