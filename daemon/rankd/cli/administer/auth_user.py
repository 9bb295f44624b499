"""``rankd auth user``: who may get in, as what, and since when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rankd.cli.administer.site_access import (
    check_user,
    is_known,
    make_known,
    open_site_in,
    owner_of,
    role_of_user,
    site_directory,
)
from rankd.cli.common.option import add_place, refuse_empty
from rankd.cli.common.place import find
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers
    from rankd.client.place import Place
    from rankd.identity.register import Register
    from rankd.identity.site import Role, Site


def add_user(commands: Subparsers) -> None:
    """Add ``auth user`` and its verbs."""
    parser = commands.add_parser(
        "user", help="add, list and revoke users", description="Add, list and revoke users.", allow_abbrev=False
    )
    verbs = parser.add_subparsers(dest="user_command", required=True, metavar="add|list|revoke")
    add = verbs.add_parser(
        "add",
        help="add a user, or change a user's role",
        description="Add a user, or make a user an administrator, or an administrator a user. Gives no credentials:"
        " `rankd auth invite` does.",
        allow_abbrev=False,
    )
    add.add_argument("user", metavar="USER", help="the user's name")
    add.add_argument("--admin", action="store_true", help="with an administrator's rights")
    add.set_defaults(run=run_add)
    add_place(add)
    listing = verbs.add_parser(
        "list",
        help="who was given credentials or invited",
        description="List users and nodes that were given credentials or invited, and open invitations.",
        allow_abbrev=False,
    )
    listing.add_argument("--json", action="store_true", help="print JSON")
    listing.set_defaults(run=run_list)
    add_place(listing)
    revoke = verbs.add_parser(
        "revoke",
        help="end the access of a user",
        description="End the access of a user: the same as `rankd auth revoke --user USER`.",
        allow_abbrev=False,
    )
    revoke.add_argument("user", metavar="USER", help="the user's name")
    revoke.set_defaults(run=run_revoke)
    add_place(revoke)


def run_add(arguments: argparse.Namespace) -> int:
    """Register the user, and let the broker know what the role reaches."""
    from rankd.identity.register import admitted
    from rankd.identity.register_file import change_register
    from rankd.identity.site import Role, readmit

    place = find(arguments)
    directory, user = site_directory(place), arguments.user
    check_user(user)
    role = Role.ADMIN if arguments.admin or user == owner_of(directory) else Role.USER
    open_site_in(directory)
    readmit(directory, role, user)
    change_register(directory, lambda register: admitted(register, role, user))
    make_known(place, open_site_in(directory), role, user)
    print(f"{role} '{user}' may get in; `rankd auth invite` gives a token for another machine")
    return 0


def run_revoke(arguments: argparse.Namespace) -> int:
    """End the access of the user."""
    refuse_empty(arguments, "user")
    place = find(arguments)
    return end_access(place, role_of_user(site_directory(place), arguments.user), arguments.user)


def end_access(place: Place, role: Role, name: str) -> int:
    """Record a revocation, then update the broker. A broker that can't be reached learns it at its next start.

    Raises:
        Refused: ``usage``: the owner can't be shut out; ``unknown_name``: nobody gave this name any access.
    """
    from rankd.identity.register import withdrawn
    from rankd.identity.register_file import change_register
    from rankd.identity.site import Role, revoke
    from rankd.identity.trusted_node import read_trusted, set_trusted

    directory = site_directory(place)
    if role is not Role.NODE and name == owner_of(directory):
        raise Refused("usage", f"'{name}' started this rankd, and can't be shut out of it", "user")
    role = Role.USER if role is Role.ADMIN else role
    if not is_known(directory, open_site_in(directory), role, name):
        message = f"there is no {role} '{name}': nobody of this name was given credentials or invited"
        raise Refused("unknown_name", f"{message}; `rankd auth user list` lists them", str(role), status=404)
    revoke(directory, role, name, time.time())
    vouched = role is Role.NODE and read_trusted(directory).get(name, False)
    if vouched:
        set_trusted(directory, name, is_trusted=False)
    change_register(directory, lambda register: withdrawn(register, role, name))
    make_known(place, open_site_in(directory), role, name)
    print(f"the access of {role} '{name}' is revoked")
    if vouched:
        print(f"it may not vouch for its users any more; if it should again: rankd node trust {name}")
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    """Print users and nodes, by role and name."""
    from rankd.cli.common.table import Column, print_json, print_table
    from rankd.identity.register_file import read_register

    directory = site_directory(find(arguments))
    found = _rows(read_register(directory), open_site_in(directory), time.time())
    if arguments.json:
        print_json(found)
        return 0
    columns = [Column(header) for header in ("NAME", "ROLE", "GIVEN", "UNTIL", "REVOKED", "INVITATION")]
    print_table(columns, [_cells(row) for row in found])
    return 0


def _rows(register: Register, site: Site, now: float) -> list[dict[str, object]]:
    """One record for each user and node, with times in UTC seconds."""
    from rankd.identity.register import Member, open_invitations

    waiting = {(one.role, one.name): one.expires_at for one in open_invitations(register, now, site.revoked_at)}
    members = list(register.members.values())
    names = {(one.role, one.name) for one in members}
    members += [Member(role=role, name=name) for role, name in site.barred() if (role, name) not in names]
    return [
        {
            "name": one.name,
            "role": str(one.role),
            "given_at": one.given_at,
            "until": one.until,
            "revoked_at": site.revoked_at(one.role, one.name) if site.is_barred(one.role, one.name) else None,
            "invited_until": waiting.get((one.role, one.name)),
        }
        for one in sorted(members, key=lambda one: (one.role, one.name))
    ]


def _cells(row: dict[str, object]) -> list[str]:
    from rankd.cli.common.duration import shown_time

    def at(field: str) -> str:
        found = row[field]
        return shown_time(found) if isinstance(found, int) else "-"

    until = "never ends" if row["given_at"] is not None and row["until"] is None else at("until")
    invited = "-" if row["invited_until"] is None else f"until {at('invited_until')}"
    return [str(row["name"]), str(row["role"]), at("given_at"), until, at("revoked_at"), invited]
