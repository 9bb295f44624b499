"""What an agent says of jobs whose end it does not see: reports of those that did not start, or that were lost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from rankd.core.errors import Refused
from rankd.core.model.delivery import NOT_TAKEN
from rankd.core.model.outcome import PROLOG_FAILED
from rankd.services.agent.identity import NO_SUCH_USER, OWNER_ONLY, ROOT_REFUSED
from rankd.services.agent.ledger import Entry
from rankd.services.keeper.spawn import NOT_EXECUTABLE
from rankd.services.keeper.state import Leftover
from rankd.wire.message import Report

MOST_SHOWN = 10
REFUSED = 125
"""The exit status of a job that its node refuses, whatever its command is: that of ``rankd run``."""
OWN_CAUSES = frozenset({NO_SUCH_USER, OWNER_ONLY, ROOT_REFUSED, NOT_TAKEN})
"""Refusals that are a job's cause themselves: its user can't run jobs on this node, or it waits for others again."""


def lost_report(entry: Entry[int], leftover: Leftover, now: float) -> Report:
    """The end of a job that an earlier agent or keeper started. The real time of its end is not known."""
    started_at = leftover.process.started_at if leftover.process else None
    return msgspec.structs.replace(_never_attended(entry, "lost", now), started_at=started_at)


def refused_report(entry: Entry[int], refusal: Refused, now: float) -> Report:
    """The end of a job that does not run here."""
    is_own = refusal.code in OWN_CAUSES
    report = _never_attended(entry, refusal.code if is_own else "start_failed", now)
    status = REFUSED if is_own else NOT_EXECUTABLE
    return msgspec.structs.replace(report, exit_status=status, message=refusal.message)


def unhooked_report(entry: Entry[int], now: float) -> Report:
    """The end of a job that can't be started because of a keeper of an older version."""
    why = (
        "the process that holds this node's jobs is of an older version, which runs no prolog and no epilog; it ends"
        " with the last of its jobs: resume the node then"
    )
    report = _never_attended(entry, PROLOG_FAILED, now)
    return msgspec.structs.replace(report, message=why, drain=why)


def _never_attended(entry: Entry[int], cause: str, now: float) -> Report:
    """The end of an allocation whose process this agent did not see end."""
    return Report(allocation=entry.key, job=entry.job, kind="ended", at=now, cause=cause)


def left_behind(jobs: Sequence[int], state: Path) -> str:
    """What becomes of the jobs that run on without an agent, and what to do about them."""
    shown = f"{', '.join(map(str, jobs[:MOST_SHOWN]))}{', …' if len(jobs) > MOST_SHOWN else ''}"
    are = "job runs on without this agent" if len(jobs) == 1 else "jobs run on without this agent"
    return (
        f"{len(jobs)} {are}: {shown}; the node is down until an agent is started again with --state"
        f" {state}, which takes them over. `rankd cancel JOB` ends one then; an agent that is stopped"
        " with --drain-on-stop ends them all"
    )
