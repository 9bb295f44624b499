"""What programs may give in place of lists: a single name, and dependencies in Slurm's syntax or as ids. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rankd.client.batch.dependency import parse_dependencies
from rankd.core.errors import Refused
from rankd.core.model.job import Dependency
from rankd.wire.submission import Accepted, Submitted

_NAME = re.compile("[0-9]+(_[0-9]+)?")


def listed(given: str | int | Iterable[Any]) -> list[Any]:
    """A list of names; a single name is a list of one.

    >>> listed("root"), listed(17), listed(("a", "b"))
    (['root'], [17], ['a', 'b'])
    """
    return [given] if isinstance(given, str | int) else list(given)


def with_dependencies(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a job with ``depends_on`` as it is sent.

    >>> with_dependencies({"depends_on": [1, "2_3", "afterany:4,singleton"]})["depends_on"][1:]
    [{'type': 'afterok', 'job': '2_3'}, {'type': 'afterany', 'job': 4}, {'type': 'singleton'}]

    Raises:
        Refused: ``bad_dependency``: a text is not in Slurm's syntax.
    """
    given = fields.get("depends_on")
    if given is None:
        return dict(fields)
    several = [given] if isinstance(given, str | int | Mapping | Dependency | Submitted | Accepted) else list(given)
    return {**fields, "depends_on": [one for item in several for one in _dependencies(item)]}


def _dependencies(item: object) -> list[object]:
    """Of a job's id or its answer: until it has completed. A text is Slurm's. Others stay as they are."""
    if isinstance(item, Submitted | Accepted):
        item = item.id
    if isinstance(item, int) or (isinstance(item, str) and _NAME.fullmatch(item)):
        return [{"type": "afterok", "job": int(item) if str(item).isdecimal() else item}]
    if not isinstance(item, str):
        return [item]
    try:
        return list(parse_dependencies(item))
    except Refused as error:
        raise Refused("bad_dependency", f"depends_on: {error.message}", "depends_on") from None
