"""What the broker's URL says: ``nats://[user:password@]host:port``. Imports no NATS: the command line reads it, too."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit, urlunsplit


def user_in(url: str) -> str | None:
    """The user that connects, if the URL names one with a password (a name alone is a token).

    >>> user_in("nats://alice:secret@broker:4222")
    'alice'
    """
    parts = urlsplit(url)
    return unquote(parts.username) if parts.username and parts.password is not None else None


def without_secret(url: str) -> str:
    """For messages, logs and files.

    >>> without_secret("nats://alice:secret@broker:4222")
    'nats://broker:4222'
    """
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
