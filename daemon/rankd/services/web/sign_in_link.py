"""The link for one use with which the user who started the site signs in.

Its secret is in a file that only this user can read. Whoever removes the file has used the link, so two requests with
the same link can't both sign in. The service writes the file; commands read it.
"""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from rankd.identity.credentials import write_private

LINK_FILE = "web.link"
PATH = "/sign-in"
_SECRET_BYTES = 32


def new_link(directory: Path, base: str) -> str:
    """Write a link to the page at ``base``, which replaces the one before; returns it.

    Raises:
        OSError: the directory can't be written.
    """
    link = f"{base}{PATH}?token={secrets.token_urlsafe(_SECRET_BYTES)}"
    write_private(directory / LINK_FILE, link + "\n")
    return link


def read_link(directory: Path) -> str | None:
    """The link that has not been used; None without one."""
    try:
        return (directory / LINK_FILE).read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def spend(directory: Path, token: str) -> bool:
    """Use the link, if this is its token; returns whether it signs in."""
    link = read_link(directory)
    if link is None:
        return False
    wanted = parse_qs(urlsplit(link).query).get("token", [""])[0]
    if not wanted or not hmac.compare_digest(wanted.encode(), token.encode(errors="surrogatepass")):
        return False
    with suppress(OSError):
        os.unlink(directory / LINK_FILE)  # noqa: PTH108 - as a pair with the read above
        return True
    return False
