"""Which starts have to wait for the end of another allocation that holds their devices."""

from types import SimpleNamespace

from rankd.services.agent.held_device import Held, sort_out, still_held
from rankd.services.agent.ledger import Ledger


def start(allocation, *devices):
    return SimpleNamespace(allocation=allocation, device_ids=devices)


def test_only_those_whose_devices_are_held_wait():
    ledger = Ledger()
    ends = ledger.add(1, 11, ["GPU-0", "GPU-1"])
    ledger.end(ledger.add(2, 12, ["GPU-2"]))
    starts = [start(1, "GPU-0", "GPU-1"), start(3, "GPU-1"), start(4, "GPU-2"), start(5)]
    fresh, held = sort_out(starts, ledger)
    assert (list(fresh), held) == ([4, 5], [Held(3, "GPU-1", 1)])
    assert still_held(held[0]) == (
        "allocation 3 has to wait: allocation 1, which has not ended here, holds device GPU-1"
    )
    ledger.end(ends)
    assert sort_out(starts, ledger) == ({3: starts[1], 4: starts[2], 5: starts[3]}, [])
