"""``rankd login``: exchanges an invitation for credentials, and keeps them where all commands find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.option import add_command
from rankd.core.errors import Refused, usable

if TYPE_CHECKING:
    import argparse

    from rankd.bus.enrolment import Enrolled
    from rankd.cli.common.option import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add ``login``."""
    parser = add_command(
        subparsers,
        "login",
        run,
        "Exchange an invitation (rankd auth invite) for credentials, and keep them in ~/.config/rankd. From then on,"
        " commands of yours use that rankd where no other one is named or found.",
    )
    parser.add_argument(
        "token",
        nargs="?",
        metavar="TOKEN",
        help="the token of the invitation (default: read from standard input, which other users can't see)",
    )
    parser.add_argument(
        "--renew",
        action="store_true",
        help="replace your credentials by newer ones; needs no token while they are valid",
    )


def run(arguments: argparse.Namespace) -> int:
    """Log in, or renew."""
    if arguments.renew and arguments.token:
        raise Refused("usage", "--renew needs no token; leave one of them out", "token")
    enrolled = _renewed() if arguments.renew else _exchanged(arguments.token)
    _keep(enrolled)
    return 0


def _exchanged(given: str | None) -> Enrolled:
    from rankd.bus.enrolment import exchange
    from rankd.cli.common.token_source import ask_for_token
    from rankd.cli.common.user_file import PENDING, own_directory
    from rankd.client.place import user_file_path
    from rankd.client.session import run_quietly
    from rankd.identity.invitation import read_invitation

    invitation = read_invitation(ask_for_token() if given is None else given)
    if invitation.role == "node":
        message = f"this token is for the node '{invitation.name}'; there: rankd agent --state DIR --token-file FILE"
        raise Refused("usage", message, "token")
    user_file = user_file_path()
    with usable(user_file.parent, "token"):
        pending = own_directory(user_file) / PENDING
        return run_quietly(invitation.nats[0], lambda: exchange(invitation, pending))


def _renewed() -> Enrolled:
    """Newer credentials, from the rankd that the present ones are of.

    Raises:
        Refused: ``usage``: nobody has logged in here.
    """
    from rankd.bus.connection import Bus
    from rankd.bus.enrolment import renew
    from rankd.cli.common.user_file import CREDENTIALS
    from rankd.client.place import named_by_user, user_file_path
    from rankd.client.session import CONNECT_TIMEOUT_S, run_quietly
    from rankd.identity.credentials import read_credentials

    path = user_file_path().with_name(CREDENTIALS)
    nats = named_by_user()
    if nats is None or not path.exists():
        raise Refused("usage", f"{path} holds no credentials yet: give the token of an invitation", "renew")
    credentials = read_credentials(path)
    claims = credentials.claims()

    async def ask() -> Enrolled:
        async with Bus(nats, "login", connect_timeout_s=CONNECT_TIMEOUT_S, credentials=lambda: credentials) as bus:
            return await renew(bus, claims.role or "user", claims.name, credentials.ca)

    return run_quietly(nats, ask)


def _keep(enrolled: Enrolled) -> None:
    """Write the credentials, then the file that names them; forget the key of the exchange last."""
    from rankd.cli.common.duration import shown_time
    from rankd.cli.common.user_file import CREDENTIALS, PENDING, own_directory, write_user_file
    from rankd.client.place import user_file_path
    from rankd.identity.credentials import write_private

    user_file = user_file_path()
    with usable(user_file.parent, "token"):
        directory = own_directory(user_file)
        write_private(directory / CREDENTIALS, enrolled.credentials.text())
        kept = write_user_file(user_file, enrolled.nats, directory / CREDENTIALS)
        (directory / PENDING).unlink(missing_ok=True)
    until = shown_time(enrolled.expires_at)
    print(f"you are {enrolled.role} '{enrolled.name}' at {enrolled.nats} until {until}")
    print(f"{user_file} names this rankd; `rankd queue -v` says which one a command uses")
    if kept is not None:
        print(f"the file that was there before is {kept}")
