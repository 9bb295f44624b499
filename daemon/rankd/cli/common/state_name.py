"""The names of states that options take: rankd's own, and Slurm's letters and words.

Source: the states of jobs in squeue(1) and sacct(1) of Slurm 24.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALL = "all"
_SAME = {
    "configuring": "allocated",
    "canceled": "cancelled",
    "node_fail": "node_lost",
    "complete": "completed",
}
"""Slurm's words, and other spellings, for states of rankd."""
_NEVER = {
    "bf": "boot_fail",
    "cg": "completing",
    "dl": "deadline",
    "lf": "launch_failed",
    "pr": "preempted",
    "pu": "power_up_node",
    "rd": "resv_del_hold",
    "rf": "requeue_fed",
    "rh": "requeue_hold",
    "rq": "requeued",
    "rs": "resizing",
    "rv": "revoked",
    "s": "suspended",
    "se": "special_exit",
    "si": "signaling",
    "so": "stage_out",
    "st": "stopped",
    "ud": "update_db",
    "rc": "reconfig_fail",
}
"""Slurm's states that no job of rankd is ever in, by their letters."""


def states_of(words: Sequence[str], short: Mapping[str, str]) -> tuple[list[str] | None, list[str]]:
    """The states that these words name, and those words that name a state of Slurm that rankd never has.

    ``short``: the letters of each state. The states are None for ``all``.

    >>> states_of(["PD", "Suspended"], {"pending": "PD"})
    (['pending'], ['SUSPENDED'])

    Raises:
        Refused: ``usage``: a word that names no state.
    """
    known = {letters.lower(): state for state, letters in short.items()} | {state: state for state in short} | _SAME
    lower = [word.lower() for word in words]
    if unknown := [word for word in lower if word != ALL and word not in known and word not in _never()]:
        raise Refused("usage", f"unknown state '{unknown[0]}'; known: all, {', '.join(short)}", "states")
    if ALL in lower:
        return None, []
    never = [_NEVER.get(word, word).upper() for word in lower if word not in known]
    return [known[word] for word in lower if word in known], never


def _never() -> frozenset[str]:
    return frozenset((*_NEVER, *_NEVER.values()))
