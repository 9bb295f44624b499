"""Looking: single answers, and lists that come in pages."""

from __future__ import annotations

from typing import Any

import msgspec

from rankd.client.step import Ask, Effort, Plan, answer
from rankd.wire.encoding import encode

LARGEST_PAGE = 1_000
"""Rows of a page. This is the service's limit."""


def look(verb: str, message: object, kind: Any, effort: Effort) -> Plan[Any]:  # noqa: ANN401 - the kind decides
    """The answer to a request that changes nothing."""
    found = yield from answer(Ask(verb, encode(message), kind), effort)
    return found


def rows(verb: str, name: str, message: object, kind: Any, effort: Effort, most: int | None = None) -> Plan[list[Any]]:  # noqa: ANN401 - the kind decides
    """The rows of the list ``name`` from all pages, ``most`` at most. ``kind``: a struct of a page."""
    request: dict[str, Any] = msgspec.to_builtins(message)
    found = list[Any]()
    while most is None or len(found) < most:
        size = LARGEST_PAGE if most is None else min(most - len(found), LARGEST_PAGE)
        page = yield from answer(Ask(verb, encode({**request, "limit": size}), kind), effort)
        found += getattr(page, name)
        if page.next is msgspec.UNSET:
            break
        request |= msgspec.to_builtins(page.next)
    return found
