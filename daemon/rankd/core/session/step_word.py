"""How a step is, in words: what ``rankd show`` and the page say. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankd.core.model.signal_name import name_of_signal

_CAUSES = {"not_started": "not started", "lost": "lost", "job_ended": "ended with its job"}


def state_of(step: Mapping[str, Any]) -> str:
    """How a step is, or how the worst of its tasks ended.

    >>> ended = {"ended_at": 2.0, "exit_status": 3, "signal": None, "cause": None}
    >>> state_of(ended), state_of(ended | {"ended_at": None}), state_of(ended | {"exit_status": None, "signal": 9})
    ('exit 3', 'running', 'signal KILL')
    >>> state_of(ended | {"cause": "not_started", "exit_status": 127})
    'not started (127)'
    """
    if step["ended_at"] is None:
        return "running"
    if step["cause"] is not None:
        why = _CAUSES.get(step["cause"]) or str(step["cause"])
        return why if step["exit_status"] is None else f"{why} ({step['exit_status']})"
    if step["signal"] is not None:
        return f"signal {name_of_signal(step['signal'])}"
    return f"exit {step['exit_status']}"
