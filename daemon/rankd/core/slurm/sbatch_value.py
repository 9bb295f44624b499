"""Values of sbatch's options that rankd writes in another way. Pure.

Each function raises ValueError with advice if a value has no equivalent.
"""

from __future__ import annotations

import re

from rankd.core.near_name import cut
from rankd.core.slurm.duration import parse_duration

UNLIMITED = frozenset({"unlimited", "infinite"})
USUAL_URGENCY, LEAST_URGENCY = 16, 1
NICE_STEP = 100
"""sbatch's --nice without a value lowers the priority by this."""

_FEATURE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_PATTERN = re.compile(r"%([0-9]*)(.)", re.DOTALL)
_OURS = {"j": "j", "J": "j", "x": "x", "u": "u", "N": "n", "A": "A", "a": "a", "%": "%"}


def time_limit(text: str) -> str | None:
    """Seconds with ``s``; None for no limit (``0``, ``UNLIMITED``).

    >>> time_limit("1-12:30"), time_limit("0"), time_limit("2-")
    ('131400s', None, '172800s')
    """
    word = text.strip()
    if word.lower() in UNLIMITED:
        return None
    seconds = parse_duration(f"{word}0" if word.endswith("-") else word)
    return f"{int(seconds)}s" if seconds else None


def file_pattern(text: str) -> str:
    """A file name with rankd's letters: ``%N``, the node, is ``%n`` here, and ``%J`` is ``%j``. A width stays.

    >>> file_pattern("log/%x-%4j.%N")
    'log/%x-%4j.%n'
    """

    def replaced(found: re.Match[str]) -> str:
        width, letter = found.groups()
        if letter not in _OURS:
            raise ValueError(f"'%{letter}' in a file name has no equivalent; use %j, %x, %u, %N, %A or %a")
        return f"%{width}{_OURS[letter]}"

    if "\\" in text:
        raise ValueError(f"'{cut(text)}': a backslash has no meaning in rankd's file names; write % as %%")
    return _PATTERN.sub(replaced, text)


def constraint(text: str) -> str:
    """Features as labels: ``a&b`` is ``a,b``; ``[a]`` is ``a``.

    >>> constraint("[a100]&ib")
    'a100,ib'
    """
    features = [feature.strip().removeprefix("[").removesuffix("]").strip() for feature in re.split("[&,]", text)]
    for feature in features:
        if not _FEATURE.fullmatch(feature):
            advice = "rankd has labels that a node must have (a, a&b); for alternatives give the nodes a common label"
            raise ValueError(f"'{cut(text)}': {advice}, or write `#RANKD -C 'key in (a,b)'`")
    return ",".join(features)


def exported(text: str) -> str:
    """``NIL`` means ``NONE``."""
    return "NONE" if text == "NIL" else text


def gpus(text: str) -> str:
    """A number of GPUs, or numbers of models.

    >>> gpus("2"), gpus("a100:2,v100:1")
    ('2', 'a100:2,v100:1')
    """
    for part in text.split(","):
        model, colon, number = part.rpartition(":")
        if not (number.isascii() and number.isdecimal()) or bool(colon) != bool(model) or ":" in model:
            raise ValueError(f"'{cut(text)}' is not a number of GPUs; write 2, or MODEL:2 such as a100:2")
    return text


def urgency_of_nice(text: str) -> str:
    """An urgency below the usual 16: one less for each 100 of the value, at least 1.

    >>> [urgency_of_nice(t) for t in ("", "0", "150", "10000")]
    ['15', '16', '14', '1']
    """
    number = text.strip() or str(NICE_STEP)
    if not number.lstrip("-").isdecimal() or len(number) > len("-2147483645"):
        raise ValueError(f"'{cut(text)}' is not a whole number")
    if number.startswith("-"):
        raise ValueError("a job before others is for administrators: --admin --urgency")
    return str(max(LEAST_URGENCY, USUAL_URGENCY - -(-int(number) // NICE_STEP)))


_EVENTS = {
    "none": "none",
    "begin": "start",
    "end": "end",
    "fail": "fail",
    "requeue": "requeue",
    "time_limit": "timeout",
    "array_tasks": "tasks",
    "all": "all",
}
_NOT_OURS = frozenset({"invalid_depend", "stage_out", "time_limit_90", "time_limit_80", "time_limit_50"})


def mail_type(text: str) -> tuple[str, list[str]]:
    """The events of ``--notify``, and those of sbatch that have no equivalent.

    >>> mail_type("BEGIN,END,STAGE_OUT")
    ('start,end', ['STAGE_OUT'])
    """
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in _EVENTS and word not in _NOT_OURS:
            raise ValueError(f"'{cut(word)}' is not an event; write {', '.join(_EVENTS).upper()}")
    ours = ",".join(_EVENTS[word] for word in words if word in _EVENTS)
    return ours, [word.upper() for word in words if word in _NOT_OURS]


def mail_user(text: str) -> str:
    """Addresses as targets; users without a domain get the site's.

    >>> mail_user("alice,bob@example.org")
    'mailto:alice,mailto:bob@example.org'
    """
    return ",".join(f"mailto:{user.strip()}" for user in text.split(",") if user.strip())
