"""A site: one secret, and what is signed with it. A process that can read the secret can act as any user and node.

The directory holds ``site.key`` (mode 0600 in a directory of mode 0700), the credentials of rankd's own processes,
and ``ca.pem`` while the broker encrypts its connections. Keys are derived from the secret
(:mod:`rankd.identity.key`), tokens are signed when they are needed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from rankd.core.errors import Refused
from rankd.identity.claims import (
    AccountClaims,
    AccountLimits,
    Import,
    Narrow,
    UserClaims,
    account_token,
    operator_token,
    user_token,
)
from rankd.identity.credentials import CA_FILE, Credentials, write_private
from rankd.identity.key import SECRET_BYTES, Key, KeyKind, derive, new_key
from rankd.identity.node_list import read_nodes
from rankd.identity.one_writer import one_writer
from rankd.identity.reach import (
    admin_imports,
    enrolment_imports,
    gateway_imports,
    hub_exports,
    hub_imports,
    node_exports,
    node_imports,
    notifier_hears,
    notifier_publishes,
    services_exports,
    session_imports,
    user_imports,
    web_hears,
    web_publishes,
)
from rankd.identity.trusted_node import read_trusted
from rankd.wire.encoding import UNREADABLE
from rankd.wire.enrolment import MOST_BYTES
from rankd.wire.subject import ENROL, NOTIFIER, WEB, inbox_prefix

KEY_FILE = "site.key"
REVOKED_FILE = "revoked.json"
USER_LIMITS = AccountLimits(connections=100, subscriptions=4_096)
"""Of one user's or node's connections together: one client can't use up what the broker has.

The largest messages of all of them together are less than what may wait for the intake's connection.
"""
ENROLMENT_LIMITS = AccountLimits(connections=64, subscriptions=256, payload_bytes=MOST_BYTES)
"""Of the connections of all invitations together."""
ENROLMENT_SUBSCRIPTIONS = 4
NOTIFIERS_REACH = Narrow(
    publish=notifier_publishes(), subscribe=notifier_hears(), subscriptions=64, payload_bytes=2**20, answers=True
)
WEBS_REACH = Narrow(publish=web_publishes(), subscribe=web_hears(), subscriptions=64, payload_bytes=2**16, answers=True)

ALL_OF_THEM = "*"
"""In an account's revocations: every user of it."""


class Role(StrEnum):
    """What a connection may be."""

    SYSTEM = "system"
    SERVICES = "services"
    ADMIN = "administrator"
    USER = "user"
    NODE = "node"
    GATEWAY = "gateway"
    NOTIFIER = "notifier"
    """A connection in the services' account that reaches little of it."""
    SESSIONS = "sessions"
    """The account through which sessions of users with nodes go. Nobody is in it."""
    WEB = "web"
    """The page's, in the services' account. It reaches nothing there; it asks for users as a gateway."""
    ENROLMENT = "enrolment"
    """An invitation that has not been exchanged yet."""


class Account(NamedTuple):
    """An account as the server has to know it: its public key and its signed claims."""

    public: str
    token: str


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials signed up to ``at`` (UTC seconds) do not count. ``is_barred``: the gateway gives no new ones."""

    at: int
    is_barred: bool = True


class Site:
    """Signs accounts and credentials. Methods take ``now`` in UTC seconds.

    ``vouching``: the nodes that may ask for the users of their machines. ``ca``: the CA's certificate. Credentials
    hold it, so that clients can check the broker's certificate. ``nodes``: those that users may have sessions with.
    """

    def __init__(
        self,
        secret: bytes,
        revoked: Mapping[str, Revocation] | None = None,
        vouching: Collection[str] = (),
        ca: str = "",
        nodes: Collection[str] = (),
    ) -> None:
        self._secret = secret
        self.ca = ca
        self._revoked = revoked or {}
        self._vouching = vouching
        self.nodes = frozenset(nodes)
        self._operator = derive(secret, KeyKind.OPERATOR, "site")

    def with_nodes(self, nodes: Iterable[str]) -> Site:
        """The same site with these nodes, too."""
        return Site(self._secret, self._revoked, self._vouching, self.ca, self.nodes.union(nodes))

    def operator(self, now: float) -> str:
        """The operator's token, which the server's configuration names."""
        return operator_token(self._operator, self.account_of(Role.SYSTEM), now)

    def authority_seed(self) -> bytes:
        """48 bytes, from which the key of the site's CA comes."""
        return hmac.digest(self._secret, b"certificate authority", hashlib.sha384)

    def account_of(self, role: Role, name: str = "") -> str:
        """The public key of an account. A user and the same one as an administrator share an account."""
        return self._account(role, name).public

    def account(self, role: Role, name: str, now: float, operator: Key | None = None) -> Account:
        """An account with what its role reaches; ``name`` is the user's or the node's. ``operator`` signs it."""
        key = self._account(role, name)
        services, hub = self.account_of(Role.SERVICES), self.account_of(Role.SESSIONS)
        found = self.revoked_at(role, name)
        revoked = {} if found is None else {ALL_OF_THEM: found}
        title = f"{role} {name}".strip()
        claims = AccountClaims(public=key.public, name=title, limits=USER_LIMITS, revoked=revoked)
        match role:
            case Role.SYSTEM:
                claims = AccountClaims(public=key.public, name="system")
            case Role.SERVICES:
                limits = AccountLimits(has_streams=True)
                claims = AccountClaims(public=key.public, name="services", exports=services_exports(), limits=limits)
                claims = _with_imports(claims, session_imports(hub, None))
            case Role.ADMIN:
                claims = _with_imports(claims, admin_imports(services, name) + session_imports(hub, name))
            case Role.USER:
                claims = _with_imports(claims, user_imports(services, name) + session_imports(hub, name))
            case Role.NODE:
                claims = _with_imports(claims, node_imports(services, name, vouches=name in self._vouching))
                claims = msgspec.structs.replace(claims, exports=node_exports(name))
            case Role.SESSIONS:
                imports = hub_imports({node: self.account_of(Role.NODE, node) for node in sorted(self.nodes)})
                claims = AccountClaims(public=key.public, name=title, exports=hub_exports(), imports=imports)
            case Role.GATEWAY:
                sessions = (
                    session_imports(hub, None) if name == WEB else []
                )  # logs of users whom the page has signed in
                claims = _with_imports(claims, gateway_imports(services, name) + sessions)
            case Role.ENROLMENT:
                imports = enrolment_imports(services)
                claims = AccountClaims(public=key.public, name=title, limits=ENROLMENT_LIMITS, imports=imports)
        return Account(key.public, account_token(operator or self._operator, claims, now))

    def credentials(self, role: Role, name: str, now: float, lasts_s: float | None = None) -> Credentials:
        """Credentials with a key of their own; valid for ``lasts_s`` seconds, or without an end."""
        key = new_key(KeyKind.USER)
        return Credentials(self.sign(role, name, key.public, now, lasts_s), key.seed, self.ca)

    def sign(self, role: Role, name: str, public: str, now: float, lasts_s: float | None = None) -> str:
        """A token for a public key: its private half gets in as this user or node."""
        expires_at = None if lasts_s is None else int(now + lasts_s)
        claims = UserClaims(public=public, name=name, role=role, expires_at=expires_at)
        found = self.revoked_at(role, name)
        signed_at = now if found is None else max(now, found + 1)
        return user_token(self._account(role, name), claims, signed_at)

    def static_key(self, role: Role, name: str) -> Key:
        """The one key of an account at a server that has accounts in its configuration file."""
        return derive(self._secret, KeyKind.USER, f"static {family(role, name)}")

    def static_credentials(self, role: Role, name: str, now: float) -> Credentials:
        """Credentials for :meth:`static_key`. The server looks at the key only. The token says whose they are."""
        key = self.static_key(role, name)
        claims = UserClaims(public=key.public, name=name, role=role)
        return Credentials(user_token(self._account(role, name), claims, now), key.seed, self.ca)

    def enrolment(self, now: float, lasts_s: float) -> Credentials:
        """Credentials with which an invitation is exchanged: for one subject, and for answers to itself only."""
        key = new_key(KeyKind.USER)
        narrow = Narrow(
            publish=[ENROL],
            subscribe=[f"{inbox_prefix(key.public)}.>"],
            subscriptions=ENROLMENT_SUBSCRIPTIONS,
            payload_bytes=MOST_BYTES,
        )
        claims = UserClaims(
            public=key.public, name="invitation", role=Role.ENROLMENT, expires_at=int(now + lasts_s), narrow=narrow
        )
        return Credentials(user_token(self._account(Role.ENROLMENT, ""), claims, now), key.seed, self.ca)

    def notifier(self, now: float) -> Credentials:
        """Credentials of the notifier, which talks to the world: in the services' account, but for little of it."""
        key = new_key(KeyKind.USER)
        claims = UserClaims(public=key.public, name=NOTIFIER, role=Role.NOTIFIER, narrow=NOTIFIERS_REACH)
        return Credentials(user_token(self._account(Role.SERVICES, ""), claims, now), key.seed, self.ca)

    def web(self, now: float) -> Credentials:
        """Credentials of the page: in the services' account, where it only answers about its health."""
        key = new_key(KeyKind.USER)
        claims = UserClaims(public=key.public, name=WEB, role=Role.WEB, narrow=WEBS_REACH)
        return Credentials(user_token(self._account(Role.SERVICES, ""), claims, now), key.seed, self.ca)

    def static_notifier(self, now: float) -> Credentials:
        """As :meth:`static_credentials`, of the notifier."""
        key = self.static_key(Role.NOTIFIER, NOTIFIER)
        claims = UserClaims(public=key.public, name=NOTIFIER, role=Role.NOTIFIER, narrow=NOTIFIERS_REACH)
        return Credentials(user_token(self._account(Role.SERVICES, ""), claims, now), key.seed, self.ca)

    def revoked_at(self, role: Role, name: str) -> int | None:
        """Credentials and invitations of this user or node that were made up to then (UTC seconds) do not count."""
        found = self._revoked.get(family(role, name))
        return None if found is None else found.at

    def is_barred(self, role: Role, name: str) -> bool:
        """Whether an administrator has revoked what this user or node had, and has given nothing new."""
        found = self._revoked.get(family(role, name))
        return found is not None and found.is_barred

    def barred(self) -> list[tuple[Role, str]]:
        """Role and name of those who are barred."""
        names = [key.partition(" ") for key, found in self._revoked.items() if found.is_barred]
        return [(Role(role), name) for role, _, name in names]

    def barred_accounts(self, now: float) -> list[Account]:
        """The accounts of those who are barred: a broker that was away when they were revoked has to learn of it."""
        return [self.account(role, name, now) for role, name in self.barred()]

    def _account(self, role: Role, name: str) -> Key:
        return derive(self._secret, KeyKind.ACCOUNT, family(role, name))


def family(role: Role, name: str) -> str:
    """The name of an account: the same one for a user as an administrator and without."""
    return f"{Role.USER if role is Role.ADMIN else role} {name}"


def open_site(directory: Path) -> Site:
    """The site whose secret is in this directory; a new one if there is none.

    Raises:
        Refused: ``bad_secret``: the file holds something else.
        OSError: the directory can't be written.
    """
    path = directory / KEY_FILE
    if not path.exists():
        write_private(path, secrets.token_hex(SECRET_BYTES) + "\n")
    return read_site(directory)


def read_site(directory: Path) -> Site:
    """The site whose secret is in this directory.

    Raises:
        Refused: ``bad_secret``: the file holds something else.
        OSError: it can't be read.
    """
    path = directory / KEY_FILE
    try:
        secret = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        message = f"{path} does not hold the secret of a site; restore it, or remove it: then all credentials change"
        raise Refused("bad_secret", message)
    trusted = read_trusted(directory)
    vouching = {name for name, is_trusted in trusted.items() if is_trusted}
    return Site(secret, _read_revoked(directory), vouching, _read_ca(directory), read_nodes(directory) | set(trusted))


def revoke(directory: Path, role: Role, name: str, now: float) -> None:
    """Record that all credentials of this user or node that were signed until now do not count any more.

    Raises:
        OSError: the directory can't be written.
    """
    with one_writer(directory):
        _write_revoked(directory, {**_read_revoked(directory), family(role, name): Revocation(at=int(now))})


def readmit(directory: Path, role: Role, name: str) -> None:
    """Let the gateway give this user credentials again; those that were revoked stay so.

    Raises:
        OSError: the directory can't be written.
    """
    with one_writer(directory):
        revoked = _read_revoked(directory)
        if (found := revoked.get(family(role, name))) is not None and found.is_barred:
            _write_revoked(directory, {**revoked, family(role, name): msgspec.structs.replace(found, is_barred=False)})


def read_barred_users(directory: Path) -> frozenset[str]:
    """The users whose access was revoked and who were given nothing new.

    Raises:
        Refused: ``bad_secret``: the file holds something else.
        OSError: it can't be read.
    """
    prefix = family(Role.USER, "")
    found = _read_revoked(directory).items()
    return frozenset(key.removeprefix(prefix) for key, one in found if key.startswith(prefix) and one.is_barred)


def _read_ca(directory: Path) -> str:
    try:
        return (directory / CA_FILE).read_text(encoding="ascii")
    except FileNotFoundError:
        return ""
    except ValueError:
        raise Refused("bad_secret", f"{directory / CA_FILE} holds no certificate; start `rankd up` again") from None


def _read_revoked(directory: Path) -> dict[str, Revocation]:
    try:
        return msgspec.json.decode((directory / REVOKED_FILE).read_bytes(), type=dict[str, Revocation])
    except FileNotFoundError:
        return {}
    except UNREADABLE as error:
        raise Refused("bad_secret", f"{directory / REVOKED_FILE} can't be read: {error}; restore it") from None


def _write_revoked(directory: Path, revoked: Mapping[str, Revocation]) -> None:
    write_private(directory / REVOKED_FILE, msgspec.json.format(msgspec.json.encode(revoked)).decode() + "\n")


def _with_imports(claims: AccountClaims, imports: list[Import]) -> AccountClaims:
    return msgspec.structs.replace(claims, imports=imports)
