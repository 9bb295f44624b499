"""Who was given credentials or invited, and as what. Pure: every function returns another register.

Revocations are not in it: :class:`rankd.identity.site.Site` knows them, and they count for whatever was made before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from rankd.core.errors import Refused
from rankd.core.instant import shown_instant
from rankd.identity.site import Role, family

KEPT_S = 86_400
"""An invitation that has ended is kept for this long. A client that comes too late is told the reason."""
MOST_OPEN = 1_000
"""Invitations that are open at the same time."""

_PUBLIC = re.compile(r"U[A-Z2-7]{55}")

RevokedAt = Callable[[Role, str], int | None]
"""Up to when (UTC seconds) what was made for a user or node does not count; None means that all counts."""


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A user or node. ``given_at``: when it last got credentials; None means not yet.

    ``until``: when the last of its credentials ends; None means never, once it got some. All in UTC seconds.
    ``renews``: it has exchanged an invitation. Only such credentials may be renewed: others would outlive their end.
    """

    role: Role
    name: str
    given_at: int | None = None
    until: int | None = None
    renews: bool = False


class Invitation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token that was handed out. ``used_by`` is the public key that it was exchanged for; None means not yet."""

    role: Role
    name: str
    made_at: int
    expires_at: int
    used_by: str | None = None
    used_at: int | None = None


class Register(msgspec.Struct, frozen=True, kw_only=True):
    """Members by the name of their account, invitations by the digest of their secret."""

    members: Mapping[str, Member] = {}
    invitations: Mapping[str, Invitation] = {}

    def member(self, role: Role, name: str) -> Member | None:
        """The user or node of this name; a user may be an administrator."""
        return self.members.get(family(role, name))

    def role_of(self, user: str) -> Role:
        """An administrator, or a user."""
        found = self.member(Role.USER, user)
        return Role.USER if found is None else found.role


def admitted(register: Register, role: Role, name: str) -> Register:
    """With this user or node in this role."""
    found = register.member(role, name) or Member(role=role, name=name)
    return _with_member(register, msgspec.structs.replace(found, role=role))


def given(register: Register, role: Role, name: str, at: float, until: float | None) -> Register:
    """With credentials for this user or node that last until then; None means without an end."""
    found = register.member(role, name) or Member(role=role, name=name)
    ends = [until] if found.given_at is None else [until, found.until]
    latest = None if None in ends else max(int(end) for end in ends if end is not None)
    return _with_member(register, Member(role=role, name=name, given_at=int(at), until=latest, renews=found.renews))


def withdrawn(register: Register, role: Role, name: str) -> Register:
    """With no credentials and no administrator's rights of this user or node.

    Its invitations stay. The revocation ends them, and a client that comes with one is told so.
    """
    found = register.member(role, name)
    if found is None:
        return register
    role = Role.USER if found.role is Role.ADMIN else found.role
    return _with_member(register, Member(role=role, name=found.name))


def invited(register: Register, digest: str, invitation: Invitation, now: float) -> Register:
    """With one more invitation, and without those that ended long ago. The invited user or node becomes a member.

    Raises:
        Refused: ``too_many``: too many are open.
    """
    kept = {key: one for key, one in register.invitations.items() if one.expires_at + KEPT_S > now}
    if sum(one.used_by is None and one.expires_at > now for one in kept.values()) >= MOST_OPEN:
        raise Refused("too_many", f"{MOST_OPEN} invitations are open; wait until some are used or end", status=429)
    register = admitted(register, invitation.role, invitation.name)
    return msgspec.structs.replace(register, invitations={**kept, digest: invitation})


def find_invitation(register: Register, digest: str, key: str, now: float, revoked_at: RevokedAt) -> Invitation:
    """The invitation with this digest, if it may be exchanged for credentials of this public key.

    The key that it was exchanged for may do so again: its answer may have been lost.

    Raises:
        Refused: ``bad_token``, ``revoked_token``, ``used_token``, ``expired_token``, ``bad_key``.
    """
    found = register.invitations.get(digest)
    if not is_public_key(key):
        raise Refused("bad_key", "the key is not the public key of a user", "key")
    if found is None:
        message = "rankd does not know this invitation, or it ended long ago; ask for a new one"
        raise Refused("bad_token", message, "token", status=403)
    revoked = revoked_at(found.role, found.name)
    if revoked is not None and found.made_at <= revoked:
        message = f"an administrator has revoked the access of '{found.name}', and this invitation; ask for a new one"
        raise Refused("revoked_token", message, "token", status=403)
    if found.used_by not in (None, key):
        message = f"this invitation was used at {shown_instant(found.used_at or 0)}, and each can be used once"
        message += "; ask for a new one. If it was not you, tell your administrator"
        raise Refused("used_token", message, "token", status=403)
    if found.used_by is None and found.expires_at <= now:
        message = f"this invitation ended at {shown_instant(found.expires_at)}; ask for a new one"
        raise Refused("expired_token", message, "token", status=403)
    return found


def redeemed(register: Register, digest: str, key: str, now: float, until: float) -> Register:
    """With this invitation spent for a public key, whose credentials last until then."""
    found = register.invitations[digest]
    if found.used_by is not None:
        return register
    spent = msgspec.structs.replace(found, used_by=key, used_at=int(now))
    register = msgspec.structs.replace(register, invitations={**register.invitations, digest: spent})
    register = given(register, role_now(register, found), found.name, now, until)
    member = register.members[family(found.role, found.name)]
    return _with_member(register, msgspec.structs.replace(member, renews=True))


def open_invitations(register: Register, now: float, revoked_at: RevokedAt) -> list[Invitation]:
    """Those that can still be used, the first that ends first."""
    found = [one for one in register.invitations.values() if one.used_by is None and one.expires_at > now]
    counting = [one for one in found if one.made_at > (revoked_at(one.role, one.name) or 0)]
    return sorted(counting, key=lambda one: one.expires_at)


def role_now(register: Register, invitation: Invitation) -> Role:
    """The role that an invitation gives: that of the member now, since an administrator may have changed it."""
    found = register.member(invitation.role, invitation.name)
    return invitation.role if found is None else found.role


def is_public_key(text: str) -> bool:
    """Whether it has the form of a user's public key. Credentials for it are useless without its private half."""
    return _PUBLIC.fullmatch(text) is not None


def _with_member(register: Register, member: Member) -> Register:
    members = {**register.members, family(member.role, member.name): member}
    return msgspec.structs.replace(register, members=members)
