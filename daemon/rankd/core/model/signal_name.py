"""Names and numbers of the signals that users may send to their jobs."""

from __future__ import annotations

import signal

from rankd.core.errors import Refused

FIRST, LAST = 1, 64
RESERVED = frozenset({32, 33})
"""The C library keeps these for itself."""
LONGEST = 16
NAMES = {name.removeprefix("SIG"): number.value for name, number in signal.Signals.__members__.items()}


def parse_signal(given: str | int) -> int:
    """The number of a signal from its name, with or without ``SIG`` and in any case, or from its number.

    >>> parse_signal("USR1"), parse_signal("sigusr1"), parse_signal("10"), parse_signal(10)
    (10, 10, 10, 10)

    Raises:
        Refused: ``bad_signal``.
    """
    text = str(given).strip()[: LONGEST + 1].upper()
    number = int(text) if text.isascii() and text.isdigit() else NAMES.get(text.removeprefix("SIG"))
    if number is None or not FIRST <= number <= LAST or number in RESERVED:
        message = f"'{text[:LONGEST]}' is not a signal; give a name such as USR1, or a number from {FIRST} to {LAST}"
        raise Refused("bad_signal", message, "signal")
    return number


def name_of_signal(number: int) -> str:
    """The name of a signal, without ``SIG``; its number if it has none.

    >>> name_of_signal(10), name_of_signal(40)
    ('USR1', '40')
    """
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return str(number)
