"""All nodes as they registered: the one query that services and dumps share.

The statement is text: ``rankd dump`` reads on the driver's connection and must not import SQLAlchemy (0.6 s).
"""

from __future__ import annotations

import json
from functools import lru_cache

import msgspec

from rankd.core.model.device import Device
from rankd.core.model.device_record import StoredDevice
from rankd.core.model.node import Node, NodeState
from rankd.store.engine.reading import Reader, fetch

_NODES = "SELECT name, partition, state, capacity, labels, devices FROM nodes ORDER BY name"
_DEVICES = msgspec.json.Decoder(tuple[Device, ...])
_STORED = msgspec.json.Decoder(tuple[StoredDevice, ...])


@lru_cache(maxsize=16_384)
def read_devices(text: str) -> tuple[Device, ...]:
    """The devices of a node from their JSON. Remembered, because few nodes change between two readings."""
    return _DEVICES.decode(text)


@lru_cache(maxsize=4096)
def read_stored(text: str) -> tuple[StoredDevice, ...]:
    """The same with all that is stored about them."""
    return _STORED.decode(text)


def all_nodes(connection: Reader) -> list[Node]:
    """Every node, by name. The result does not include their usage."""
    return [
        Node(
            name=row["name"],
            partition=row["partition"],
            capacity=row["capacity"],
            labels=json.loads(row["labels"]),
            state=NodeState(row["state"]),
            devices=read_devices(row["devices"]),
        )
        for row in fetch(connection, _NODES)
    ]
