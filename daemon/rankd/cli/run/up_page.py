"""The page of ``rankd up``: its options, and the line that says where it is and how to sign in."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.services.service_option import port
from rankd.core.printable import printable

if TYPE_CHECKING:
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


def page_in_words(directory: Path, state: Up, flag: str) -> str:
    """Where the page is and how to sign in; or how to get the page."""
    from rankd.services.web.sign_in_link import read_link

    if "web" not in state.pids:
        return "none" if is_installed() else "none; `pip install 'rankd[web]'` adds it"
    link = read_link(directory / "auth")
    if link is None:
        return "its log is log/web.log"
    return f"{printable(link)}   (signs in once; `rankd web --link{flag}` prints another one)"
