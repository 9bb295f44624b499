"""What an agent keeps of its enrolment in its state directory, so that the next starts need no token.

``node.creds`` are credentials in NATS' form; ``node.json`` says of which broker and node they are. Both are private.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from rankd.core.errors import Refused
from rankd.identity.credentials import Credentials, write_private

CREDENTIALS = "node.creds"
RECORD = "node.json"
PENDING = "node.key"


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The broker, the node's name, and the digest of the invitation that was exchanged."""

    nats: str
    name: str
    invitation: str


def read_node_record(state: Path) -> NodeRecord | None:
    """What the agent kept; None if it has not enrolled.

    Raises:
        Refused: ``bad_state``: the file holds something else.
        OSError: it can't be read.
    """
    try:
        return msgspec.json.decode((state / RECORD).read_bytes(), type=NodeRecord)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, ValueError) as error:
        message = f"{state / RECORD} can't be read: {error}; remove it, and enrol the node again"
        raise Refused("bad_state", message, "state") from None


def keep_node(state: Path, record: NodeRecord, credentials: Credentials) -> None:
    """Write both files, the record last: without it, the next start exchanges the invitation again.

    Raises:
        OSError: they can't be written.
    """
    write_private(state / CREDENTIALS, credentials.text())
    write_private(state / RECORD, msgspec.json.encode(record).decode() + "\n")
    (state / PENDING).unlink(missing_ok=True)
