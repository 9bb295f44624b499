"""AMD's cards, from a tree in the form that the kernel publishes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankd.core.model.device import Device
from rankd.services.watcher.kfd import Kfd

GIB = 2**30


class Tree:
    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def node(self, number: int, **properties: int) -> None:
        lines = "".join(f"{name} {value}\n" for name, value in properties.items())
        self.write(f"sys/class/kfd/kfd/topology/nodes/{number}/properties", lines)

    def card(self, number: int, minor: int, *, unique: int = 0, device: int = 0x740F, **more: int) -> None:
        self.node(number, simd_count=416, device_id=device, unique_id=unique, drm_render_minor=minor, **more)
        where = f"sys/class/kfd/kfd/topology/nodes/{number}"
        self.write(f"{where}/gpu_id", f"{1000 + number}\n")
        self.write(f"{where}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {64 * GIB}\nflags 0\n")

    def link(self, number: int, to: int, kind: int, which: int = 0) -> None:
        text = f"type {kind}\nversion_major 0\nnode_from {number}\nnode_to {to}\nweight 15\n"
        self.write(f"sys/class/kfd/kfd/topology/nodes/{number}/io_links/{which}/properties", text)


@pytest.fixture
def tree(tmp_path) -> Tree:
    made = Tree(tmp_path)
    for processor in (0, 1):
        made.node(processor, cpu_cores_count=64, simd_count=0, drm_render_minor=0)
    return made


def test_without_the_driver_there_are_no_cards(tmp_path):
    assert Kfd(tmp_path).look() == []


def test_processors_are_not_cards(tree):
    assert Kfd(tree.root).look() == []


def test_a_card_has_what_the_tree_says(tree):
    tree.card(2, 128, unique=0x8E27CF3C9A7B1D05)
    tree.write("sys/class/drm/renderD128/device/gpu_busy_percent", "37\n")
    tree.write("sys/class/drm/renderD128/device/mem_info_vram_used", f"{5 * GIB}\n")
    [seen] = Kfd(tree.root).look()
    assert seen.device == Device(model="mi210", id="GPU-8e27cf3c9a7b1d05", index=0, group=0, memory=64 * GIB)
    assert seen.paths == [f"{tree.root}/dev/dri/renderD128", f"{tree.root}/dev/kfd"]
    assert (seen.busy, seen.memory_used, seen.pids) == (0.37, 5 * GIB, [])


def test_cards_are_in_the_order_of_their_numbers(tree):
    for number in (10, 9, 2):
        tree.card(number, 126 + number, unique=number)
    seen = Kfd(tree.root).look()
    assert [(each.device.index, Path(each.paths[0]).name) for each in seen] == [
        (0, "renderD128"),
        (1, "renderD135"),
        (2, "renderD136"),
    ]


def test_fast_links_make_groups_and_else_processors(tree):
    for number in range(2, 8):
        tree.card(number, 126 + number, unique=number)
        tree.link(number, 0 if number < 5 else 1, 2)
    tree.link(2, 6, 11, which=1)
    tree.link(6, 2, 11, which=1)
    assert [each.device.group for each in Kfd(tree.root).look()] == [0, 1, 1, 2, 0, 2]


def test_the_processes_of_a_card_have_memory_of_it(tree):
    tree.card(2, 128, unique=1)
    tree.card(3, 129, unique=2)
    tree.write("sys/class/kfd/kfd/proc/4711/vram_1002", f"{GIB}\n")
    tree.write("sys/class/kfd/kfd/proc/4711/vram_1003", "0\n")
    tree.write("sys/class/kfd/kfd/proc/12/vram_1002", "4096\n")
    assert [each.pids for each in Kfd(tree.root).look()] == [[12, 4711], []]


def test_a_card_without_an_id_has_its_place_on_the_bus(tree):
    tree.card(2, 128, location_id=0x0301, domain=2)
    assert Kfd(tree.root).look()[0].device.id == "pci-0002:03:00.1"


MODELS = {
    "a known number": (0x74A1, None, 0, "mi300x"),
    "a product's name": (0x1, "AMD Radeon PRO W7900\n", 0, "pro-w7900"),
    "an instruction set": (0x1, None, 90402, "gfx942"),
    "another one": (0x1, None, 90010, "gfx90a"),
    "nothing": (0x1, None, 0, "unknown"),
}


@pytest.mark.parametrize("by", MODELS)
def test_the_model_is_known_by(tree, by):
    device, product, version, expected = MODELS[by]
    tree.card(2, 128, device=device, gfx_target_version=version)
    if product:
        tree.write("sys/class/drm/renderD128/device/product_name", product)
    assert Kfd(tree.root).look()[0].device.model == expected


def test_what_can_not_be_read_is_left_out(tree):
    tree.card(2, 128)
    tree.write("sys/class/kfd/kfd/topology/nodes/3/properties", "simd_count many\n")
    tree.write("sys/class/drm/renderD128/device/gpu_busy_percent", "\n")
    [seen] = Kfd(tree.root).look()
    assert seen.busy is None
