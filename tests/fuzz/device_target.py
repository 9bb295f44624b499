"""What agents and administrators say of devices: files of ``--devices``, reports, and states for ``evaluate``."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.hostile import Hostile

from rankd.config.evaluation import Evaluator
from rankd.core.admission.node_check import MAX_DEVICE_ID, MAX_DEVICES
from rankd.core.evaluate.result import Result
from rankd.core.model.device import Device
from rankd.core.model.device_record import DeviceOrder, HeldCard, stored, with_states
from rankd.core.model.device_report import (
    LONGEST_NOTE,
    MOST_NOTES,
    MOST_USES,
    check_uses,
    in_words,
    merged,
)
from rankd.services.agent.given_device import DeviceSpec, GivenDevices, parse_spec, read_file, vendor_of
from rankd.wire.codec import decode_of_node
from rankd.wire.device import DeviceReport

HERE = [Device(model="a100", id=f"g{place}", index=place, group=place // 2) for place in range(4)]
CARD = HeldCard(job=7, id="g9", index=1, path=("/dev/nvidia1",))
FILE = b"""[[device]]
model = "a100"
id = "GPU-8a56a4bc-0184-a047-2620-4e8c6b9c3a5b"
index = 0
group = 1
memory = "80Gi"
state = "ok"
path = ["/dev/nvidia0", "/dev/nvidiactl"]

[[device]]
type = "gpu"
model = "a100-1g.10gb"
id = "MIG-1"
index = 1
memory = 1
path = "/dev/nvidia1"
"""
NOTE: dict[str, object] = {"id": "g0", "state": "taken", "by": "4711 bob", "reason": "r", "fault": "XID 79"}
USE: dict[str, object] = {
    "allocation": 1, "id": "g0", "recent": 0.5, "busy": 3.0, "samples": 30, "peak_bytes": 2**34, "idle_s": 0.0,
}  # fmt: skip
STATE: dict[str, object] = {
    "now": 1000,
    "nodes": [{"name": "n1", "capacity": {"vcore": 8}, "devices": [
        {"type": "gpu", "model": "a100", "id": "g0", "index": 0, "group": 0, "state": "ok", "memory": 5},
        {"model": "v100", "id": "g1", "index": 1, "state": "failed"},
    ]}],
    "jobs": [
        {"id": 1, "state": "running", "resources": {"vcore": 1, "gpu": 1}},
        {"id": 2, "resources": {"gpu:a100": 1}}, {"id": 3, "exclusive": True},
    ],
    "allocations": [{"job": 1, "node": "n1", "devices": {"n1": ["g0"]}}],
}  # fmt: skip
EVALUATOR = Evaluator()


def large(hostile: Hostile) -> int:
    """As many parts as are allowed, or one more."""
    return MAX_DEVICES + hostile.chance.randrange(2)


def a_file(hostile: Hostile) -> bytes:
    """A damaged file, or the largest one that is allowed, which may have one device too many."""
    if hostile.chance.random() < 0.05:
        row = '[[device]]\nmodel = "{model}"\nid = "{id:0>{width}}"\nindex = {id}\n'
        rows = [row.format(model="m" * 63, id=place, width=MAX_DEVICE_ID) for place in range(large(hostile))]
        return "".join(rows).encode()
    return hostile.damaged(FILE, FILE)


def read_devices(directory: Path, given: object) -> None:
    """The devices that a node registers. Each has an id of its own, and there are not too many."""
    assert isinstance(given, bytes)
    file = directory / "devices.toml"
    file.write_bytes(given)
    specs = [DeviceSpec("v100", 1)]
    found = GivenDevices(specs if len(given) % 2 else (), read_file(file)).of("n1")
    assert len(found) <= MAX_DEVICES
    assert len({device.id for device in found}) == len(found)
    for device in found:
        vendor_of(device.path)
        device.registered()


def a_spec(hostile: Hostile) -> str:
    return hostile.damaged(b"gpu:a100:4", hostile.text().encode()).decode(errors="replace")


def read_spec(given: object) -> None:
    assert 0 < parse_spec(str(given)).number <= MAX_DEVICES


def a_report(hostile: Hostile) -> bytes:
    """A report of a few parts, or of as many as are allowed, with texts as long as they may be; some are too large."""
    chance = hostile.chance
    if chance.random() < 0.1:
        over = chance.randrange(2)
        text = "n" * (LONGEST_NOTE + chance.randrange(2))
        notes = [NOTE | {"id": f"g{place}", "by": text, "fault": text} for place in range(MOST_NOTES + over)]
        uses = [USE | {"allocation": place} for place in range(MOST_USES + over)]
        return json.dumps({"notes": notes, "uses": uses, "instance": "i"}).encode()
    notes = [json.loads(note) for note in _parts(hostile, NOTE)]
    uses = [json.loads(use) for use in _parts(hostile, USE)]
    report = json.dumps({"notes": notes, "uses": uses}).encode()
    return hostile.damaged(report) if chance.random() < 0.2 else report


def _parts(hostile: Hostile, good: dict[str, object]) -> list[bytes]:
    """Some parts with at most one wrong value each."""
    parts = []
    for _ in range(hostile.chance.randrange(4)):
        part = dict(good)
        if hostile.chance.random() < 0.5:
            part[hostile.chance.choice(list(good))] = hostile.value(1)
        parts.append(json.dumps(part).encode())
    return parts


def read_report(given: object) -> None:
    """As the intake reads it; what is recorded can be shown."""
    assert isinstance(given, bytes)
    report = decode_of_node(given, DeviceReport)
    check_uses(report.uses)
    assert len(report.notes) <= MOST_NOTES
    assert len(report.uses) <= MOST_USES
    notes = {note.id: note for note in report.notes}
    orders = {note.id: DeviceOrder(drained_by="alice", reason=note.reason) for note in report.notes}
    assert len(with_states([stored(device) for device in HERE], notes, orders, [CARD])) == len(HERE)
    for note in report.notes:
        in_words(merged(note, note), "gpu 0")


def a_state(hostile: Hostile) -> bytes:
    """A state with devices: damaged, or with one value replaced, or with the most devices of a node."""
    chance, state = hostile.chance, json.loads(json.dumps(STATE))
    if chance.random() < 0.02:
        state["nodes"][0]["devices"] = [
            {"model": "a100", "id": f"g{place}", "index": place, "group": place // 8} for place in range(large(hostile))
        ]
    elif chance.random() < 0.7:
        part = chance.choice([state["nodes"][0]["devices"][0], state["allocations"][0], state["jobs"][1], state])
        part[chance.choice(list(part))] = hostile.value(2)
    text = json.dumps(state).encode()
    return hostile.damaged(text) if chance.random() < 0.2 else text


def decide(given: object) -> None:
    """No device is given away twice, or while a running job holds it."""
    assert isinstance(given, bytes)
    for node, given_away in _given_away(EVALUATOR.evaluate(given)).items():
        assert len(given_away) == len(set(given_away)), node


def _given_away(result: Result) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for started in result.allocations:
        for node, ids in (started.devices or {}).items():
            found.setdefault(node, []).extend(ids)
    return found
