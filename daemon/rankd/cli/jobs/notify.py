"""The options ``--notify`` and ``--notify-to`` as the field ``notify``, and jobs without it where it is not allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args

from rankd.cli.common.screen import print_line
from rankd.core.errors import Refused
from rankd.core.model.notification import Kind
from rankd.core.near_name import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rankd.cli.jobs.delivery import Delivered
    from rankd.cli.jobs.request import Job

NOTHING = "none"
NOT_ALLOWED = "notification_not_allowed"
_KINDS = get_args(Kind)
_BETWEEN_TARGETS = re.compile(r",(?=[a-z][a-z0-9+.-]*:)")


def notify_of(events: str | None, targets: str | None, *, may_lack_events: bool) -> dict[str, Any]:
    """The field as part of a job; empty if it is to notify of nothing.

    ``may_lack_events``: targets without events mean nothing, as with sbatch.

    >>> notify_of("end,fail", "mailto:a@b.org,https://h.org/x", may_lack_events=False)
    {'notify': {'on': ['end', 'fail'], 'to': ['mailto:a@b.org', 'https://h.org/x']}}

    Raises:
        Refused: ``usage``.
    """
    if events is None:
        if may_lack_events:
            return {}
        raise Refused("usage", "--notify-to needs --notify, which says when: start, end, fail or all", "notify_to")
    wanted = [word.strip().lower() for word in events.split(",") if word.strip()]
    if not set(wanted) - {NOTHING, "tasks"}:
        return {}
    for word in wanted:
        if word not in _KINDS:
            message = f"'{cut(word)}' is not an event to notify of; write {', '.join(_KINDS)} or {NOTHING}"
            raise Refused("usage", message, "notify")
    found: dict[str, Any] = {"on": wanted}
    if targets:
        found["to"] = [target.strip() for target in _BETWEEN_TARGETS.split(targets)]
    return {"notify": found}


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
