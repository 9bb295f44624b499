"""Suggestions for messages about an unknown name: the known name that the user probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

LONGEST = 100
"""Longer names get no suggestion: comparing them takes time, and a typo in them is easy to see."""
MOST_COMPARED = 500
_LENGTHS_APART = 3
_SHOWN = 80


def near_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to this one, ignoring case; None if none is similar.

    The last part of a known path counts too: ``batch`` is similar to ``root.batch``. At most :data:`MOST_COMPARED`
    names of about the same length are compared.

    >>> near_name("root.bathc", ["root", "root.batch", "root.default"])
    'root.batch'
    """
    from difflib import get_close_matches  # noqa: PLC0415 - commands that only look start without it

    wanted = name.lower()
    if not wanted or len(wanted) > LONGEST:
        return None
    whole, last = _candidates(wanted, known)
    found = get_close_matches(wanted, whole, n=1, cutoff=0.7) or get_close_matches(wanted, last, n=1, cutoff=0.7)
    return (whole | last)[found[0]] if found else None


def _candidates(wanted: str, known: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Known names of about the wanted length by their lower case, and known paths by their last part."""
    apart = max(_LENGTHS_APART, len(wanted) // 3)
    whole: dict[str, str] = {}
    last: dict[str, str] = {}
    for name in known:
        if abs(len(name) - len(wanted)) <= apart:
            whole.setdefault(name.lower(), name)
        tail = name.rpartition(".")[2]
        if tail != name and abs(len(tail) - len(wanted)) <= apart:
            last.setdefault(tail.lower(), name)
        if len(whole) + len(last) >= MOST_COMPARED:
            break
    return whole, last


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """``unknown queue 'root.bathc'; did you mean 'root.batch'?``, or the first known names if none is similar.

    >>> unknown("QoS", "x", ["normal", "high"])
    "unknown QoS 'x'; known: normal, high"
    """
    names = list(known)
    near = near_name(name, names)
    if near is not None:
        return f"unknown {what} '{cut(name)}'; did you mean '{near}'?"
    return f"unknown {what} '{cut(name)}'; known: {', '.join(islice(names, 20)) or 'none'}"


def cut(text: str, most: int = _SHOWN) -> str:
    """The text, cut to ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
