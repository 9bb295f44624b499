"""The credentials that a connection presents. They are read again at every connection, so that renewed ones count."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from rankd.bus.address import user_in
from rankd.core.errors import RankdError
from rankd.identity.credentials import Credentials, Source

log = logging.getLogger("rankd.bus")


class Presented:
    """The credentials of one connection.

    ``address`` is the broker's URL, which may name a user. ``source`` reads the credentials; None without credentials.
    ``believe`` is called with the CA's certificate of each credentials that are read.
    """

    def __init__(self, address: str, source: Source | None, believe: Callable[[str], None]) -> None:
        self._address = address
        self._source = source
        self._believe = believe
        self.newest: Credentials | None = None

    @property
    def user(self) -> str | None:
        """Who connects, as far as the connection says so."""
        return user_in(self._address) if self.newest is None else self.newest.claims().name

    @property
    def role(self) -> str | None:
        """What the credentials let the connection be; None without credentials."""
        return None if self.newest is None else self.newest.claims().role

    def public_key(self) -> str:
        """The key that signs; empty without credentials."""
        return "" if self.newest is None else self.newest.claims().public

    def read(self) -> dict[str, Any]:
        """Read the credentials for the first time; returns nats-py's options for them.

        Raises:
            RankdError: they can't be read. At a reconnection, this would only be logged.
        """
        if self._source is None:
            return {}
        self._use(self._source())
        return {"signature_cb": self._signature, "user_jwt_cb": self._token}

    def refresh(self) -> None:
        """Use the credentials of this moment."""
        if self._source is None:
            return
        try:
            self._use(self._source())
        except RankdError as error:  # an exception here would end nats-py's reconnecting for good
            log.warning("bus: connecting with the credentials of before: %s", error.message)

    def _use(self, credentials: Credentials) -> None:
        self.newest = credentials
        self._believe(credentials.ca)

    def _signature(self, nonce: str) -> bytes:
        """The answer to the broker's challenge, with the credentials of this moment."""
        self.refresh()
        assert self.newest is not None  # noqa: S101 - read before the first connection
        from rankd.identity.key import answer  # noqa: PLC0415 - cryptography, which most connections do not need

        return answer(self.newest.seed, nonce)

    def _token(self) -> bytearray:
        """The token behind the last signature."""
        return bytearray(b"" if self.newest is None else self.newest.token.encode())
