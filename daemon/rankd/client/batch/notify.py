"""The options ``--notify`` and ``--notify-to`` as the field ``notify``."""

from __future__ import annotations

import re
from typing import Any, get_args

from rankd.core.errors import Refused
from rankd.core.model.notification import Kind
from rankd.core.near_name import cut

NOTHING = "none"
_KINDS = get_args(Kind)
_BETWEEN_TARGETS = re.compile(r",(?=[a-z][a-z0-9+.-]*:)")


def notify_of(events: str | None, targets: str | None, *, if_allowed: bool) -> dict[str, Any]:
    """The field as part of a job; empty if it is to notify of nothing.

    ``if_allowed``: targets that the site does not allow are left out with a warning, and targets without events mean
    nothing, as with sbatch.

    >>> notify_of("end,fail", "mailto:a@b.org,https://h.org/x", if_allowed=False)
    {'notify': {'on': ['end', 'fail'], 'to': ['mailto:a@b.org', 'https://h.org/x']}}

    Raises:
        Refused: ``usage``.
    """
    if events is None:
        if if_allowed:
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
    if if_allowed:
        found["if_allowed"] = True
    return {"notify": found}
