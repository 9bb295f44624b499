"""Nodes by their names, as for sbatch's ``-w`` and ``-x``: which constraint says that, and how many nodes it takes."""

from __future__ import annotations

import re
from typing import NamedTuple

from rankd.core.errors import Refused
from rankd.core.model.nodelist import unfold
from rankd.core.near_name import cut

NODE = "rankd/node"
"""The label that every node has with its name: :data:`rankd.core.placement.constraint.NODE`."""
MOST_NAMES = 256
"""Names in one term of a constraint."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class Nodes(NamedTuple):
    """The range of a job's number of nodes. ``is_given``: an option says it."""

    least: int
    most: int
    is_given: bool


def nodes_of(wanted: str | None, given: Nodes) -> Nodes:
    """The number of nodes of a job that gets the ``wanted`` ones: exactly these.

    Raises:
        Refused: ``usage``: another number was given, which can't be kept.
    """
    if wanted is None:
        return given
    number = len(_names(wanted, "nodelist"))
    named = "1 node" if number == 1 else f"{number} nodes"
    if given.is_given and given.most > number:
        message = (
            f"-w names {named}, but the job asks for {given.most}: rankd adds no others to named nodes;"
            f" name {given.most}, or write -N {number}"
        )
        raise Refused("usage", message, "nodes")
    if given.is_given and given.least < number:
        message = f"-w names {named}, and the job gets all of them; write -N {number}, or name fewer"
        raise Refused("usage", message, "nodes")
    return Nodes(number, number, is_given=True)


def constraints_of(labels: str | None, wanted: str | None, unwanted: str | None) -> str | None:
    """The constraint for these labels and nodes.

    >>> constraints_of("gpu=a100", "n[1-2]", "n3")
    'gpu=a100,rankd/node in (n1,n2),rankd/node notin (n3)'

    Raises:
        Refused: ``usage``: a list can't be read, or names a node as wanted and as unwanted.
    """
    terms = [labels] if labels is not None else []
    names = [] if wanted is None else _names(wanted, "nodelist")
    others = [] if unwanted is None else _names(unwanted, "exclude")
    if both := set(names) & set(others):
        raise Refused("usage", f"'{min(both)}' is in -w and in -x; leave it out of one of them", "exclude")
    if len(names) > MOST_NAMES:
        message = f"-w names {len(names)} nodes, {MOST_NAMES} are allowed; give the nodes a label, and write -C LABEL"
        raise Refused("usage", message, "nodelist")
    terms += [f"{NODE} in ({','.join(names)})"] if names else []
    parts = (others[start : start + MOST_NAMES] for start in range(0, len(others), MOST_NAMES))
    terms += [f"{NODE} notin ({','.join(part)})" for part in parts]
    return ",".join(terms) if terms else None


def _names(text: str, option: str) -> list[str]:
    try:
        names = list(dict.fromkeys(unfold(text.strip())))
    except ValueError as error:
        raise Refused("usage", str(error), option) from None
    if not names:
        raise Refused("usage", "the list of nodes is empty; write one like n[01-08],login", option)
    if wrong := next((name for name in names if not _NAME.fullmatch(name)), None):
        message = f"'{cut(wrong)}' is not the name of a node that can be asked for; write a list like n[01-08],login"
        raise Refused("usage", message, option)
    return names
