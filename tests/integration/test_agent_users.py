"""Jobs of two users under one agent that is root: each runs exactly once, under its user's rights.

``RANKD_TEST_JOBS`` says how many; ``make test-users`` runs 10,000.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest
from integration.test_agent import stage, start_of
from integration.test_agent_user import SUBMITTER, needs_root, of, reachable  # noqa: F401 - a fixture
from watch import LOOK_EVERY_S

JOBS = int(os.environ.get("RANKD_TEST_JOBS", "1500"))
BATCH = 50
AT_ONCE = 400
PATIENCE_S = 1200
USERS = ("daemon", "nobody")


@needs_root
@pytest.mark.timeout(PATIENCE_S + 60)
async def test_jobs_of_two_users_run_exactly_once_each(broker, reachable):  # noqa: F811
    """Jobs of both start and end all the time, many of them within the time that it takes to start another."""
    for user in USERS:
        (reachable / user).mkdir()
        (reachable / user).chmod(0o777)
    async with stage(broker, reachable, run_as=SUBMITTER) as intake, asyncio.timeout(PATIENCE_S):
        for first in range(1, JOBS + 1, BATCH):
            numbers = range(first, min(first + BATCH, JOBS + 1))
            await intake.order(starts=[a_job(number, reachable) for number in numbers])
            while len(ends(intake)) < first - AT_ONCE:
                await asyncio.sleep(LOOK_EVERY_S)
        while len(ends(intake)) < JOBS:
            await asyncio.sleep(LOOK_EVERY_S)
        wrong = [report for _, report in intake.reports if report.kind == "ended" and report.exit_status != 0]
        assert [(report.allocation, report.message) for report in wrong[:3]] == []
        counts = Counter((report.kind, report.allocation) for _, report in intake.reports)
    assert counts == {(kind, number): 1 for kind in ("started", "ended") for number in range(1, JOBS + 1)}
    for number in range(1, JOBS + 1):
        ran = reachable / user_of(number) / str(number)
        assert ran.read_text() == "ran\n"
        assert ran.stat().st_uid == uid_of(number)


def user_of(number: int) -> str:
    return USERS[number % 2]


def uid_of(number: int) -> int:
    import pwd

    return pwd.getpwnam(user_of(number)).pw_uid


def a_job(number: int, where: Path):
    script = f"echo ran >> {where}/{user_of(number)}/{number}; sleep 0.02"
    return of(start_of(number, "sh", "-c", script), user_of(number))


def ends(intake) -> set[int]:
    return {report.allocation for _, report in intake.reports if report.kind == "ended"}
