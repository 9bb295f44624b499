"""Which agent represents which nodes, and which registrations were refused.

The subject of a message proves the identity of one node. An agent with several nodes registers each under its own
subject with the same key. A message with that key then counts for all of them. Keys are kept in memory only, so after
a restart of the intake the agent registers again.
"""

from __future__ import annotations

import hmac
import logging

from rankd.core.errors import Refused
from rankd.wire.message import Heartbeat

log = logging.getLogger("rankd.intake")

_MOST_COMPLAINTS = 1_000


class OwnedNodes:
    """The key of each node's last registration."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}

    def take(self, node: str, key: str) -> None:
        """Remember the key of a registration. An empty key proves nothing."""
        if key:
            self._keys[node] = key
        else:
            self._keys.pop(node, None)

    def split(self, node: str, message: Heartbeat) -> tuple[list[str], list[str]]:
        """The nodes for which a message on the subject of ``node`` counts, and the other nodes that it names.

        Raises:
            Refused: ``foreign_node``: the message names other nodes and has no key.
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
    """Refused registrations. Each is logged once, until the same agent (by its instance) registers the node."""

    def __init__(self) -> None:
        self._noted: set[tuple[str, str, str]] = set()

    def note(self, node: str, instance: str, error: Refused) -> None:
        """Log the refusal, unless this agent already had the same one."""
        if (node, instance, error.code) in self._noted:
            return
        if len(self._noted) >= _MOST_COMPLAINTS:
            self._noted.clear()
        self._noted.add((node, instance, error.code))
        whose = f" for the agent with instance {instance}" if instance else ""
        log.warning("node '%s' is not registered%s: %s", node[:253], whose, error.message)

    def forget(self, node: str, instance: str) -> None:
        """Note that this agent has registered the node: its next refusal is logged again."""
        if self._noted:
            self._noted = {noted for noted in self._noted if noted[:2] != (node, instance)}
