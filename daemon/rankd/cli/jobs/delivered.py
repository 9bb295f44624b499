"""What became of submitted jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rankd.wire.submission import Rejected


class Delivered(NamedTuple):
    """The accepted jobs, as ids by their place in the request, and the rejected ones.

    ``tasks``: of a single array. ``warning``: what the user should know, a line each.
    """

    ids: dict[int, int]
    rejected: list[Rejected]
    tasks: int | None = None
    warning: str | None = None
