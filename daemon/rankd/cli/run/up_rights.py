"""Options of ``rankd up`` for other users: whether they may ask, and with whose rights jobs run."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from typing import Literal


def add_rights(parser: argparse.ArgumentParser) -> None:
    """Options for other users of this machine, and for the rights of jobs."""
    parser.add_argument(
        "--share",
        action=argparse.BooleanOptionalAction,
        help="let other users of this machine ask, each as the user that the kernel says it is (default: only if root"
        " starts this)",
    )
    parser.add_argument(
        "--no-auth",
        action="store_true",
        help="let everybody who can connect act as any user; for trials, on loopback only",
    )
    parser.add_argument(
        "--run-as",
        choices=["submitter", "agent"],
        help="run each job with the rights of the user who submits it (the default): started by root, jobs run as their"
        " users; started by another user, that user's jobs run, and others are refused. Or run the jobs of all users as"
        " the user who starts this (default with --no-auth)",
    )


def is_shared(arguments: argparse.Namespace) -> bool:
    """Whether other users of this machine may ask.

    Root shares unless something else is said. Where all jobs would run as root, that has to be said.
    """
    if arguments.share is not None:
        return bool(arguments.share)
    has_socket = not (arguments.no_auth or arguments.nats)
    return has_socket and os.geteuid() == 0 and arguments.run_as != "agent"


def run_as_of(arguments: argparse.Namespace) -> Literal["agent", "submitter"]:
    """Whose rights jobs have."""
    if arguments.run_as:
        return "agent" if arguments.run_as == "agent" else "submitter"
    return "agent" if arguments.no_auth else "submitter"


def check_rights(arguments: argparse.Namespace) -> None:
    """Check what was said about other users.

    Raises:
        Refused: ``usage``.
    """
    if arguments.share and (arguments.no_auth or arguments.nats):
        raise Refused("usage", "--share needs the embedded broker with authentication on", "share")
    if arguments.share and arguments.run_as == "agent" and os.geteuid() == 0:
        message = "with --share, other users' jobs would run as root; leave out --run-as agent"
        raise Refused("usage", message, "run_as")


def rights_in_words(arguments: argparse.Namespace, login: str) -> str:
    """Whose rights jobs have, to be read behind ``jobs run as``."""
    if run_as_of(arguments) == "agent":
        return f"'{login}', who started this"
    if os.geteuid() == 0:
        return "the users who submit them"
    if arguments.no_local_agent:
        return "their nodes say"
    return f"'{login}', who started this; jobs of other users are refused"


def invitation_of_others(arguments: argparse.Namespace, place: str) -> str | None:
    """What other users of this machine can do; None if they can do nothing. ``place``: the directory, quoted."""
    if not is_shared(arguments):
        return None
    if run_as_of(arguments) == "agent" or os.geteuid() == 0 or arguments.no_local_agent:
        return f"Other users of this machine: rankd submit --dir {place} -- COMMAND"
    return (
        f"Other users of this machine can look: rankd queue --dir {place}\n"
        "Their jobs are refused, since they would run as you. Start this as root, or say --run-as agent."
    )
