"""Sessions that were signed out before their time. Their cookies count no more, also after a restart of the page.

They are in a private file beside the key, for as long as their cookies would count.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path

import msgspec

from rankd.identity.credentials import write_private
from rankd.services.web.session import LASTS_S, Session

log = logging.getLogger("rankd.web")

FILE = "web.ended"
MOST_PER_USER = 100
"""Who signs out more often in the time of one session ends all own sessions up to now."""


class _Known(msgspec.Struct):
    """``sessions``: user and begin by nonce. ``before``: by user, until when all sessions have begun that are over."""

    sessions: dict[str, tuple[str, float]] = {}
    before: dict[str, float] = {}


class SignedOut:
    """The sessions of one page. ``directory`` None: they are in memory only."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / FILE
        self._known = _Known()
        self._writing = asyncio.Lock()

    def read(self) -> None:
        """Read the file, if there is one.

        Raises:
            ValueError: it can't be understood, so nobody knows which sessions are over.
            OSError: it can't be read.
        """
        if self._path is not None and self._path.exists():
            self._known = msgspec.json.decode(self._path.read_bytes(), type=_Known)

    def has(self, session: Session) -> bool:
        """Whether this session was signed out."""
        is_before = session.since <= self._known.before.get(session.user, float("-inf"))
        return session.nonce in self._known.sessions or is_before

    def add(self, session: Session, now: float) -> None:
        """End this session."""
        known, over = self._known, now - LASTS_S
        known.sessions = {nonce: one for nonce, one in known.sessions.items() if one[1] > over}
        known.before = {user: at for user, at in known.before.items() if at > over}
        known.sessions[session.nonce] = (session.user, session.since)
        if Counter(user for user, _ in known.sessions.values())[session.user] > MOST_PER_USER:
            known.before[session.user] = now
            known.sessions = {nonce: one for nonce, one in known.sessions.items() if one[0] != session.user}

    async def write(self) -> None:
        """Keep the present state for the next start. If that fails, the log says so; this process knows it anyway."""
        if self._path is None:
            return
        try:
            async with self._writing:
                await asyncio.to_thread(write_private, self._path, msgspec.json.encode(self._known).decode())
        except OSError as error:
            log.error("%s can't be written, so a restart forgets who has signed out: %s", self._path, error)  # noqa: TRY400
