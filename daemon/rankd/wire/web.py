"""What the page in browsers asks for where it has no database: its looks, as the intake's records have them."""

from __future__ import annotations

import msgspec


class PageLook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One look of the page, by its name. ``given``: the parameters of the view's address.

    ``nobody``: what a user without jobs sees.
    """

    look: str
    given: dict[str, str] = {}
    nobody: bool = False


class PageLooked(msgspec.Struct, frozen=True, kw_only=True):
    """``data``: the result as JSON, compressed (zlib), in base64. Its form belongs to this version of rankd."""

    data: bytes
