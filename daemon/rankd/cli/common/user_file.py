"""Writing the user's own file, which names a broker and the credentials for it.

:mod:`rankd.client.place` reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

DIRECTORY = 0o700
CREDENTIALS = "login.creds"
PENDING = "login.key"


def own_directory(user_file: Path) -> Path:
    """The directory of the user's file, made for its owner only.

    Raises:
        OSError: it can't be made.
    """
    directory = user_file.parent
    directory.mkdir(mode=DIRECTORY, parents=True, exist_ok=True)
    directory.chmod(DIRECTORY)
    return directory


def write_user_file(user_file: Path, nats: str, creds: Path) -> Path | None:
    """Write the file. One with other content is kept beside it; returns where.

    Raises:
        OSError: it can't be written.
    """
    from rankd.identity.credentials import write_private

    text = _text(nats, creds)
    kept = None
    if user_file.exists() and user_file.read_text(encoding="utf-8", errors="replace") != text:
        kept = user_file.with_name(f"{user_file.name}.old")
        user_file.replace(kept)
    write_private(user_file, text)
    return kept


def _text(nats: str, creds: Path) -> str:
    """The file's text: a string of JSON is also one of TOML, but for one character."""
    import json

    values = {"nats": nats, "creds": str(creds)}
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items()]
    return "".join(lines).replace("\x7f", "\\u007f")
