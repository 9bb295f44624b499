"""Refuses jobs of users as whom no node would run them, by the head's user database."""

from __future__ import annotations

import asyncio
import pwd
import time
from collections.abc import Callable, Sequence

from rankd.core.admission.runnable_user import Candidate, LocalRights, Submitters, unrunnable
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import AcceptedJob
from rankd.wire.subject import HEAD

LASTS_S = 60.0
"""How long an answer of the user database is used again."""
MOST_KNOWN = 10_000


class RunnableUsers:
    """The rule, and the users whose ids were looked up lately. ``local``: where jobs run as their users."""

    def __init__(self, rule: Callable[[], Submitters]) -> None:
        self.local: LocalRights | None = None
        self._rule = rule
        self._ids: dict[str, tuple[float, int | None]] = {}

    async def refused(self, jobs: Sequence[AcceptedJob], asker: Submitter) -> dict[int, Refused]:
        """Why jobs are refused, by their index."""
        rule, local = self._rule(), self.local
        if rule == "any" and local is None:
            return {}
        users = {job.user for job in jobs}
        why = {
            user: unrunnable(Candidate(user, await self._id(user), _is_at_head(user, asker)), rule, local)
            for user in users
        }
        return {index: refusal for index, job in enumerate(jobs) if (refusal := why[job.user]) is not None}

    async def _id(self, user: str) -> int | None:
        now = time.monotonic()
        until, id_ = self._ids.get(user, (0.0, None))
        if now >= until:
            id_ = await asyncio.to_thread(_id_of, user)  # the database may be on a network
            if len(self._ids) >= MOST_KNOWN:
                self._ids.clear()
            self._ids[user] = now + LASTS_S, id_
        return id_


def _is_at_head(user: str, asker: Submitter) -> bool:
    """Whether the gateway of the head vouches for this user."""
    return asker.via == HEAD and asker.user == user


def _id_of(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return None
