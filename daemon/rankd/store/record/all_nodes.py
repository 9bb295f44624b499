"""All nodes as they registered: the one query that services and dumps share.

The statement is text: ``rankd dump`` reads on the driver's connection and must not import SQLAlchemy (0.6 s).
"""

from __future__ import annotations

import json

from rankd.core.model.node import Node, NodeState
from rankd.store.engine.reading import Reader, fetch

_NODES = "SELECT name, partition, state, capacity, labels FROM nodes ORDER BY name"


def all_nodes(connection: Reader) -> list[Node]:
    """Every node, by name. The result does not include their usage."""
    return [
        Node(
            name=row["name"],
            partition=row["partition"],
            capacity=row["capacity"],
            labels=json.loads(row["labels"]),
            state=NodeState(row["state"]),
        )
        for row in fetch(connection, _NODES)
    ]
