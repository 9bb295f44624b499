"""Submits jobs without their notifications where the site does not allow these, with a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.cli.common.screen import print_line
from rankd.core.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rankd.cli.jobs.delivered import Delivered
    from rankd.client.batch.request import Job

NOT_ALLOWED = "notification_not_allowed"


def without_notify(jobs: Iterable[Job]) -> list[Job]:
    """The jobs without the field."""
    return [{name: value for name, value in job.items() if name != "notify"} for job in jobs]


def as_allowed(jobs: list[Job], submit: Callable[[list[Job]], Delivered]) -> Delivered:
    """Submit; if the notifications are not allowed, submit again without them, with a warning.

    Refused jobs keep no keys, so those that were accepted the first time stay the same jobs.
    """
    try:
        outcome = submit(jobs)
        why = next((bad.message for bad in outcome.rejected if bad.code == NOT_ALLOWED), None)
    except Refused as error:
        if error.code != NOT_ALLOWED:
            raise
        outcome, why = None, error.message
    if outcome is not None and why is None:
        return outcome
    print_line(f"rankd: the job notifies nobody: {why}", error=True)
    return submit(without_notify(jobs))
