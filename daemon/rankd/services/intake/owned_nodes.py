"""Which agent speaks for which nodes, and what was wrong with registrations.

The subject of a message proves one node. An agent that has several nodes registers each under its own subject with the
same key; a message with that key then counts for all of them. Keys are kept in memory only: after a restart of the
intake such an agent registers again.
"""

from __future__ import annotations

import hmac
import logging

from rankd.core.errors import Refused
from rankd.wire.message import Heartbeat

log = logging.getLogger("rankd.intake")

_MOST_COMPLAINTS = 1_000


class OwnedNodes:
    """The keys that nodes were registered with last."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}

    def take(self, node: str, key: str) -> None:
        """Remember the key of a registration; an empty one proves nothing."""
        if key:
            self._keys[node] = key
        else:
            self._keys.pop(node, None)

    def split(self, node: str, message: Heartbeat) -> tuple[list[str], list[str]]:
        """The nodes that a message on the subject of ``node`` counts for, and those that it does not.

        Raises:
            Refused: ``foreign_node``: it names other nodes and has no key.
        """
        names = list(dict.fromkeys(message.nodes)) or [node]
        if names == [node]:
            return names, []
        if not message.key:
            text = f"a message on the subject of node '{node}' names other nodes; send one for each, or a key"
            raise Refused("foreign_node", text, "nodes", status=403)
        own = {name for name in names if self._is_key(name, message.key)}
        return [name for name in names if name in own], [name for name in names if name not in own]

    def _is_key(self, node: str, key: str) -> bool:
        """Whether the node was registered with this key."""
        return hmac.compare_digest(self._keys.get(node, "").encode(), key.encode())


class Complaints:
    """Refused registrations: each is logged once, until the same agent (by its instance) registers the node."""

    def __init__(self) -> None:
        self._noted: set[tuple[str, str, str]] = set()

    def note(self, node: str, instance: str, error: Refused) -> None:
        """Log the refusal, unless this agent had it before."""
        if (node, instance, error.code) in self._noted:
            return
        if len(self._noted) >= _MOST_COMPLAINTS:
            self._noted.clear()
        self._noted.add((node, instance, error.code))
        whose = f" for the agent with instance {instance}" if instance else ""
        log.warning("node '%s' is not registered%s: %s", node[:253], whose, error.message)

    def forget(self, node: str, instance: str) -> None:
        """The node is registered by this agent: log its next refusal again."""
        if self._noted:
            self._noted = {noted for noted in self._noted if noted[:2] != (node, instance)}
