"""The nodes of a site by its register: users may have sessions with these.

The register's own module depends on the site. So this reads no more of the file than the names.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from rankd.core.errors import Refused
from rankd.wire.encoding import UNREADABLE

NODE = "node"
FILE = "register.json"


class _Member(msgspec.Struct, frozen=True):
    role: str
    name: str


class _Register(msgspec.Struct, frozen=True):
    members: dict[str, _Member] = {}


def read_nodes(directory: Path) -> frozenset[str]:
    """The names of the nodes that were given credentials or invited; none without a register.

    Raises:
        Refused: ``bad_register``: the file holds something else.
        OSError: it can't be read.
    """
    path = directory / FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Register)
    except FileNotFoundError:
        return frozenset()
    except UNREADABLE as error:
        raise Refused("bad_register", f"{path} can't be read: {error}; restore it") from None
    return frozenset(member.name for member in found.members.values() if member.role == NODE)
