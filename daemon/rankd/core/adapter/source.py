"""The adapter protocol: what a plugin of the entry-point group ``rankd.adapters`` implements.

An adapter reads one input and returns it as rows: mappings of column names to plain values. rankd calls it in a process
of its own, which is ended when its time is over. So ``read`` may block. rankd checks the rows; an adapter does not have
to. An adapter may raise any exception: then the last good input stays in use, and the message is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

import msgspec

from rankd.core.model.setting import OptionValue

Cell = str | int | float | bool | None
Row = Mapping[str, Cell]


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request for one reading: the ``input`` to provide, the adapter's ``options``, and limits.

    ``directory``: the directory of the configuration, from which relative paths start. ``time_limit_s``: the process is
    ended after this time; an adapter that starts programs or waits for servers should stop a little earlier.
    ``largest_bytes``: the most bytes to read.
    """

    input: str
    options: dict[str, OptionValue] = {}
    directory: str = "."
    time_limit_s: float = 10.0
    largest_bytes: int = 64 * 2**20


@runtime_checkable
class Adapter(Protocol):
    """One adapter. A new object is made for each reading."""

    def __init__(self, request: ReadRequest) -> None:
        """Check the options, without reading anything. Raise ValueError with the name of an option that can't work."""

    def read(self) -> Iterable[Row]:
        """All rows. May block, and may raise any exception."""


def text_option(request: ReadRequest, name: str, default: str | None = None) -> str:
    """The value of an option that must be a text.

    Raises:
        ValueError: the option is missing, empty, or not a text.
    """
    value = request.options.get(name, default)
    if not isinstance(value, str) or not value:
        raise ValueError(f"options.{name}: a text is needed")
    return value


def check_options(request: ReadRequest, *known: str) -> None:
    """Check that there are no other options than ``known``.

    Raises:
        ValueError: with the first option that is not known.
    """
    for name in request.options:
        if name not in known:
            raise ValueError(f"options.{name}: unknown; known: {', '.join(known)}")
