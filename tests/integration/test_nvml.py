"""NVIDIA's cards by the library for them, with a stand-in of the shared library below it."""

from __future__ import annotations

import re
from pathlib import Path

import pynvml
import pytest
from integration.nvml import GIB, Card, Machine, Part, needs_compiler

from rankd.core.model.device import Device
from rankd.services.watcher.nvml import CAUSED_BY_PROGRAMS, Nvml

pytestmark = needs_compiler

XID, ECC = pynvml.nvmlEventTypeXidCriticalError, pynvml.nvmlEventTypeDoubleBitEccError
ADDRESSES = [f"00000000:{bus:02X}:00.0" for bus in (0x3B, 0x5E, 0xAF, 0xD8)]


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path / "nvml")


def library_of(machine: Machine) -> Nvml:
    pynvml._nvmlGetFunctionPointer_cache.clear()  # those of another test's library
    return Nvml(str(machine.library), machine.root)


def four(**more) -> list[Card]:
    return [Card(f"GPU-{n}", minor=n, address=address, **more) for n, address in enumerate(ADDRESSES)]


def faults(seen) -> list[str | None]:
    """Without their times."""
    return [each.fault and re.sub(r" at \d{4}-\d\d-\d\dT[0-9:]{8}Z$", "", each.fault) for each in seen]


def test_cards_are_found_in_their_order_with_their_files(machine):
    machine.has(*four(used=3 * GIB, busy=40, pids=(7, 8)))
    seen = library_of(machine).look()
    assert [each.device for each in seen] == [
        Device(model="a100", id=f"GPU-{n}", index=n, group=0, memory=80 * GIB) for n in range(4)
    ]
    assert [each.paths for each in seen] == [[f"{machine.root}/dev/nvidia{n}"] for n in range(4)]
    assert (seen[0].busy, seen[0].memory_used, seen[0].pids, seen[0].fault) == (0.4, 3 * GIB, [7, 8], None)


def test_memory_of_an_older_driver_has_the_drivers_own_part_in_it(machine):
    (machine.directory / "old").touch()
    machine.has(*four(used=3 * GIB))
    [seen, *_] = library_of(machine).look()
    assert (seen.memory_used, seen.device.memory) == (4 * GIB, 80 * GIB)


def test_utilisation_is_the_mean_of_all_samples_since_the_last_look(machine):
    machine.has(*four(busy=40))
    samples = machine.directory / "samples"
    samples.write_text("100 90\n200 90\n")
    library = library_of(machine)
    assert library.look()[0].busy == 0.4, "the first look does not know which samples are new"
    samples.write_text("100 90\n200 90\n300 10\n400 20\n")
    assert [seen.busy for seen in library.look()] == [0.15] * 4
    assert library.look()[0].busy == 0.4, "no new sample"
    samples.unlink()
    assert library.look()[0].busy == 0.4


def test_minor_numbers_need_not_be_in_the_order_of_the_bus(machine):
    machine.has(Card("GPU-a", minor=1), Card("GPU-b", minor=0, address=ADDRESSES[1]))
    assert [Path(each.paths[0]).name for each in library_of(machine).look()] == ["nvidia1", "nvidia0"]


def test_links_make_groups_and_else_memory_nodes(machine):
    pairs = {0: ADDRESSES[1], 1: ADDRESSES[0]}
    cards = [card._replace(links=(pairs[n],) if n in pairs else ()) for n, card in enumerate(four())]
    machine.has(*cards)
    for address, node in zip(ADDRESSES, (0, 0, 1, 1), strict=True):
        machine.file(f"sys/bus/pci/devices/{address[4:].lower()}/numa_node", f"{node}\n")
    assert [each.device.group for each in library_of(machine).look()] == [0, 0, 1, 1]


def test_cards_on_switches_are_one_group(machine):
    machine.has(*four(links=("switch", "switch")))
    for address, node in zip(ADDRESSES, (0, 0, 1, 1), strict=True):
        machine.file(f"sys/bus/pci/devices/{address[4:].lower()}/numa_node", f"{node}\n")
    assert [each.device.group for each in library_of(machine).look()] == [0, 0, 0, 0]


MINORS = "config 1\nmonitor 2\ngpu0/gi9/access 3\ngpu3/gi1/access 30\ngpu3/gi1/ci0/access 31\n"
MINORS += "gpu3/gi1/ci1/access 32\ngpu3/gi2/access 39\ngpu3/gi2/ci0/access 40\n"


def test_parts_are_offered_in_place_of_their_card(machine):
    machine.file("proc/driver/nvidia-caps/mig-minors", MINORS)
    name = "NVIDIA A100-SXM4-80GB MIG"
    parts = [Part(0, "MIG-a", f"{name} 1g.10gb", 1), Part(0, "MIG-b", f"{name} 3g.40gb", 2, slices=3, pids=(9,))]
    machine.has(Card("GPU-a", minor=3, parted=1), *parts, Card("GPU-b", minor=4, address=ADDRESSES[1]))
    first, second, whole = library_of(machine).look()
    assert first.device == Device(model="a100-1g.10gb", id="MIG-a", index=0, group=0, memory=9728 * 2**20)
    assert (second.device.model, second.device.id, second.pids) == ("a100-3g.40gb", "MIG-b", [9])
    names = [[Path(path).name for path in part.paths] for part in (first, second)]
    assert names == [["nvidia3", "nvidia-cap30", "nvidia-cap31"], ["nvidia3", "nvidia-cap39", "nvidia-cap40"]]
    assert Path(first.paths[1]).parent == machine.root / "dev/nvidia-caps"
    assert (first.busy, first.memory_used) == (None, 0), "NVML counts no utilisation of parts"
    assert (whole.device.id, whole.device.index) == ("GPU-b", 1)


def test_a_card_in_parts_without_parts_offers_nothing(machine):
    machine.has(Card("GPU-a", parted=1), Card("GPU-b", minor=1, address=ADDRESSES[1]))
    assert [each.device.id for each in library_of(machine).look()] == ["GPU-b"]


def test_an_error_makes_its_card_unfit_and_no_other(machine):
    machine.has(*four())
    library = library_of(machine)
    library.look()
    machine.tell("GPU-2", XID, 79)
    assert library.wait(5)
    assert faults(library.look()) == [None, None, "XID 79", None]
    machine.tell("GPU-0", ECC, 0)
    assert library.wait(5)
    assert faults(library.look())[0] == "an uncorrectable memory error (ECC)"


@pytest.mark.parametrize("number", sorted(CAUSED_BY_PROGRAMS))
def test_an_error_of_a_program_does_not_take_the_card_away(machine, number):
    machine.has(*four())
    library = library_of(machine)
    library.look()
    machine.tell("GPU-2", XID, number)
    assert not library.wait(5)
    assert [each.fault for each in library.look()] == [None] * 4


def test_an_error_of_a_card_in_parts_is_one_of_all_parts(machine):
    machine.file("proc/driver/nvidia-caps/mig-minors", MINORS)
    machine.has(Card("GPU-a", minor=3, parted=1), Part(0, "MIG-a", "x", 1), Part(0, "MIG-b", "x", 2))
    library = library_of(machine)
    library.look()
    machine.tell("GPU-a", XID, 48)
    assert library.wait(5)
    assert faults(library.look()) == ["XID 48", "XID 48"]


def test_more_memory_errors_than_before_make_a_card_unfit(machine):
    machine.has(Card("GPU-a", errors=3))
    library = library_of(machine)
    assert library.look()[0].fault is None, "they are from before, and the driver has dealt with them"
    machine.has(Card("GPU-a", errors=4))
    assert faults(library.look()) == ["4 uncorrectable memory errors (ECC)"]


def test_memory_errors_after_a_reset_of_the_counts_are_noticed(machine):
    machine.has(Card("GPU-a", errors=5))
    library = library_of(machine)
    for errors in (5, 0):
        machine.has(Card("GPU-a", errors=errors))
        assert library.look()[0].fault is None
    machine.has(Card("GPU-a", errors=2))
    assert faults(library.look()) == ["2 uncorrectable memory errors (ECC)"]


def test_a_card_that_is_lost_stays_in_the_list_as_unfit(machine):
    machine.has(*four())
    library = library_of(machine)
    library.look()
    cards = four()
    cards[1] = cards[1]._replace(lost=1)
    machine.has(*cards)
    seen = library.look()
    assert [each.device.id for each in seen] == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
    assert faults(seen) == [None, "GPU is lost", None, None]
    again = library.look()
    assert [each.fault for each in again] == [each.fault for each in seen], "one loss is one error"
    assert again[1].problem


def test_a_card_that_the_driver_counts_no_more_is_not_listed(machine):
    machine.has(*four())
    library = library_of(machine)
    library.look()
    machine.has(*four()[:3])
    assert [each.device.id for each in library.look()] == ["GPU-0", "GPU-1", "GPU-2"]


def test_without_a_library_there_is_an_error_that_can_be_told_apart():
    with pytest.raises(OSError, match="no-such-library"):
        Nvml("no-such-library.so.1")
