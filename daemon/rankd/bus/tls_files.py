"""Which files encrypted connections need. Imports nothing, because every command uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class TlsFiles(NamedTuple):
    """Files in PEM form. ``cert`` and ``key`` are shown to a broker that wants a certificate of its clients.

    ``ca`` holds the certificates with which the broker's one is checked. None means the one in the credentials, else
    those of the system.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
