"""The adapter protocol: what a plugin of the entry-point group ``rankd.adapters`` implements.

An adapter reads one input from somewhere and returns it as rows: mappings of column names to plain values. rankd
calls it in a process of its own, which is ended when its time is over, so ``read`` may simply block. It checks the
rows; an adapter has no need to. To fail, raise anything: what is in force stays so, and the message is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

import msgspec

from rankd.core.model.setting import OptionValue

Cell = str | int | float | bool | None
Row = Mapping[str, Cell]


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be read: the adapter's ``options``, which ``input`` it is to give, and within which limits.

    ``directory``: the configuration's, which relative paths start from. ``time_limit_s``: after that the process is
    ended; who starts programs or waits for servers ends that a little earlier. ``largest_bytes``: read no more.
    """

    input: str
    options: dict[str, OptionValue] = {}
    directory: str = "."
    time_limit_s: float = 10.0
    largest_bytes: int = 64 * 2**20


@runtime_checkable
class Adapter(Protocol):
    """One adapter; built anew for every reading."""

    def __init__(self, request: ReadRequest) -> None:
        """Check the options; raise ValueError for what can't work, naming the option. Read nothing yet."""

    def read(self) -> Iterable[Row]:
        """All rows. May block. May raise anything."""


def text_option(request: ReadRequest, name: str, default: str | None = None) -> str:
    """An option that is a text.

    Raises:
        ValueError: it is missing, empty, or no text.
    """
    value = request.options.get(name, default)
    if not isinstance(value, str) or not value:
        raise ValueError(f"options.{name}: a text is needed")
    return value


def check_options(request: ReadRequest, *known: str) -> None:
    """No others than these.

    Raises:
        ValueError: naming the first that is not known.
    """
    for name in request.options:
        if name not in known:
            raise ValueError(f"options.{name}: unknown; known: {', '.join(known)}")
