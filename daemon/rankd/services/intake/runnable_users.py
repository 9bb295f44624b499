"""Refuses jobs of users as whom no node would run them, by the head's user database."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rankd.core.admission.runnable_user import Candidate, LocalRights, Submitters, unrunnable
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import AcceptedJob
from rankd.services.intake.user_database import UserDatabase
from rankd.wire.subject import HEAD


class RunnableUsers:
    """The rule. ``local``: where jobs run as their users."""

    def __init__(self, rule: Callable[[], Submitters], database: UserDatabase) -> None:
        self.local: LocalRights | None = None
        self._rule = rule
        self._database = database

    async def refused(self, jobs: Sequence[AcceptedJob], asker: Submitter) -> dict[int, Refused]:
        """Why jobs are refused, by their index.

        Raises:
            Unavailable: ``user_database_silent``.
        """
        rule, local = self._rule(), self.local
        if rule == "any" and local is None:
            return {}
        found = await self._database.look({job.user for job in jobs})
        why = {
            user: unrunnable(Candidate(user, known.uid, _is_at_head(user, asker)), rule, local)
            for user, known in found.items()
        }
        return {index: refusal for index, job in enumerate(jobs) if (refusal := why[job.user]) is not None}


def _is_at_head(user: str, asker: Submitter) -> bool:
    """Whether the gateway of the head vouches for this user."""
    return asker.via == HEAD and asker.user == user
