"""The page of ``rankd up``: its options, and the line that says where it is and how to sign in."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.services.service_option import port
from rankd.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankd.services.up.interface import Up

NEEDED = ("starlette", "uvicorn", "jinja2")
"""What the extra ``web`` installs."""


def add_page(parser: argparse.ArgumentParser) -> None:
    """Add the options of the page."""
    parser.add_argument("--no-web", action="store_true", help="run no page")
    parser.add_argument(
        "--web-port",
        type=port,
        default=0,
        metavar="PORT",
        help="port of the page on this machine (default: 0, the last one that it had, or any free one)",
    )


def is_installed() -> bool:
    """Whether the extra ``web`` is installed."""
    return all(find_spec(name) is not None for name in NEEDED)


def has_page(arguments: argparse.Namespace) -> bool:
    """Whether the page runs."""
    return not arguments.no_web and is_installed()


def say_page(directory: Path, state: Up, flag: str, say: Callable[[str], None]) -> None:
    """Print where the page is, with a link that signs in once; or how to get the page."""
    from rankd.services.web.sign_in_link import read_link

    if "web" not in state.pids:
        if not is_installed():
            say("\nThere is also a page for your browser: pip install 'rankd[web]', then start `rankd up` again.")
        return
    link = read_link(directory / "auth")
    if link is None:
        say("\nThe page runs; its log is in log/web.log")
        return
    say(f"\nThe page: {printable(link)}\nThis link signs in once; `rankd web --link{flag}` prints another one.")
