"""Whether rankd still lets the page ask for a visitor. A user whose access is revoked sees nothing any more.

The page reads the database itself. So it asks the intake, with a request that changes nothing, as soon as a visitor
comes, and again while the visitor looks. While the intake does not answer, what it said last counts.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from rankd.core.errors import Refused, Unavailable
from rankd.services.runtime.clock import Clock
from rankd.services.web.asking import Asking
from rankd.wire.report import ReportPart, ReportPartRequest

AGAIN_S = 5.0
"""The answer about a visitor counts for this time. Then the intake is asked again, and meanwhile the old one counts."""
FIRST_S = 1.0
"""A new visitor waits at most this long for the first answer."""
LATER_S = 10.0
MOST_KNOWN = 2_000
NOT_LET_IN = ("revoked", "unknown_gateway")


class _Known(NamedTuple):
    """What the intake said, and when (the page's clock). ``refusal`` None: it lets the user in."""

    at: float
    refusal: Refused | None


class Admitted:
    """What the intake says of the visitors of the last time."""

    def __init__(self, asking: Asking, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._asked: dict[str, asyncio.Task[None]] = {}

    async def check(self, user: str) -> None:
        """Check that this user may look. Only for a new visitor, it waits for the intake.

        Raises:
            Refused: ``revoked``, ``unknown_gateway``.
        """
        known = self._known.get(user)
        if known is None:
            await self._ask(user, FIRST_S)
        elif abs(self._clock() - known.at) > AGAIN_S and user not in self._asked:
            self._ask_beside(user)
        if (refusal := self._refusal(user)) is not None:
            raise refusal

    def _refusal(self, user: str) -> Refused | None:
        known = self._known.get(user)
        return None if known is None or known.refusal is None else _copy(known.refusal)

    def _ask_beside(self, user: str) -> None:
        task = self._asked[user] = asyncio.get_running_loop().create_task(self._ask(user, LATER_S))
        task.add_done_callback(lambda _: self._asked.pop(user, None))

    async def _ask(self, user: str, within_s: float) -> None:
        refusal = None if (known := self._known.get(user)) is None else known.refusal
        try:
            await self._asking.ask(user, "report.part", ReportPartRequest(report=""), ReportPart, within_s)
        except Refused as found:  # there is no such report; or the page may not ask
            refusal = found if found.code in NOT_LET_IN else None
        except Unavailable:
            pass
        if user not in self._known and len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[user] = _Known(self._clock(), refusal)


def _copy(refusal: Refused) -> Refused:
    return Refused(refusal.code, refusal.message, refusal.field, status=refusal.status)
