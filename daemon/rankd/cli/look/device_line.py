"""``rankd nodes --devices``: a line per node, with a cell per device."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rankd.cli.common.layout import Field
from rankd.cli.common.table import Column, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.store.engine.reading import Row

GPU = "gpu"
GONE = "gone"
"""The state of a device that a job holds, and that its node no longer lists."""


def show_devices(nodes: Sequence[Row], devices: Sequence[Row], *, as_json: bool, header: bool) -> int:
    """Print the devices of these nodes. As JSON, each device is an object."""
    by_node: dict[str, list[Row]] = {node["name"]: [] for node in nodes}
    for device in sorted(devices, key=lambda device: (device["node"], device["index"], device["id"])):
        if device["node"] in by_node:
            by_node[device["node"]].append(device)
    if as_json:
        print_json([device for own in by_node.values() for device in own])
        return 0
    lines = [[node["name"], line] for node in nodes if (line := node_line(node, by_node[node["name"]]))]
    print_table([Column("NODE"), Column("DEVICES")], lines, header=header)
    return 0


def note_held(nodes: Sequence[Row], devices: Sequence[Row]) -> None:
    """Give each node that lists devices their number, as ``listed``, and the indices of those that jobs hold: ``held``.

    A device that its node no longer lists is not counted.
    """
    listed: dict[str, list[Row]] = {}
    for device in devices:
        if device["state"] != GONE:
            listed.setdefault(device["node"], []).append(device)
    for node in nodes:
        own = listed.get(node["name"], ())
        node["listed"] = len(own)
        node["held"] = sorted(device["index"] for device in own if device["job"] is not None)
        node["out"] = Counter(device["state"] for device in own if device["job"] is None and device["state"] != "ok")


def gpus_in_use(row: Row) -> str:
    """How many GPUs of a line's nodes jobs hold, of how many; of a single node also which ones, by index.

    Devices that are taken, drained or failed count, and are named. Of nodes that list no devices, the amounts count.

    >>> node = {"capacity": {"gpu": 3}, "allocated": {"gpu": 2}, "listed": 4, "held": [0, 3]}
    >>> gpus_in_use({"nodes": [node]}), gpus_in_use({"nodes": [node] * 2})
    ('2/4 (0,3)', '4/8')
    >>> gpus_in_use({"nodes": [node | {"held": [3], "out": {"drained": 2, "failed": 1}}]})
    '1/4 (3; 2 drained, 1 failed)'
    >>> gpus_in_use({"nodes": [node | {"listed": 0, "held": []}]})
    '2/3'
    """
    total = sum(node.get("listed") or node["capacity"].get(GPU, 0) for node in row["nodes"])
    used = sum(len(node["held"]) if node.get("listed") else node["allocated"].get(GPU, 0) for node in row["nodes"])
    which = [str(index) for node in row["nodes"] for index in node.get("held", ())] if len(row["nodes"]) == 1 else []
    if not total:
        return ""
    states = sum((Counter(node.get("out", {})) for node in row["nodes"]), Counter[str]())
    out = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    more = "; ".join(filter(None, [",".join(which), out]))
    return f"{used:g}/{total:g}" + (f" ({more})" if more else "")


GPUS = Field("GPUS(A/T)", gpus_in_use)
"""A column of tables of nodes with GPUs."""


def node_line(node: Row, devices: Sequence[Row]) -> str:
    """The cells of a node; empty for a node without devices."""
    if devices:
        free = "free" if node.get("state", "up") == "up" else node["shown_state"]
        return " ".join(cell(device, free) for device in devices)
    counted = node["capacity"].get(GPU, 0)
    return f"gpu {counted:g}: counted, not assigned" if counted else ""


def cell(device: Row, free: str = "free") -> str:
    """A device: its index, its model, and who holds it. ``free``: what is said of one that nothing keeps from jobs.

    >>> free = {"index": 0, "model": "a100", "state": "ok", "job": None, "user": None, "taken_by": None, "reason": None}
    >>> cell(free), cell(free | {"job": 17, "user": "alice"}), cell(free | {"state": "failed"})
    ('[0 a100 free]', '[0 a100 job 17 alice]', '[0 a100 failed]')
    >>> cell(free | {"state": "taken", "taken_by": "4711 bob"}), cell(free | {"state": "failed", "reason": "XID 79"})
    ('[0 a100 taken 4711 bob]', '[0 a100 failed XID 79]')
    >>> cell(free, "down"), cell(free | {"state": "gone", "job": 17, "user": "alice"}, "down")
    ('[0 a100 down]', '[0 a100 gone job 17 alice]')
    """
    words = [str(device["index"]), device["model"]]
    if device["state"] != "ok":
        why = device["taken_by"] or device.get("reason")
        words += [device["state"], *([why] if why else [])]
    if device["job"] is not None:
        words += ["job", str(device["job"]), *([device["user"]] if device["user"] else [])]
    return f"[{' '.join(words if len(words) > 2 else [*words, free])}]"
