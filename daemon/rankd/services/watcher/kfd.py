"""AMD's cards, from what the kernel's driver (amdgpu, with its part for computing, kfd) publishes below /sys.

Sources: the kernel's drivers/gpu/drm/amd/amdkfd/kfd_topology.c for the tree, and its documentation of amdgpu's sysfs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rankd.core.model.device import Device
from rankd.services.watcher.linked import groups_of
from rankd.services.watcher.message import MOST_PROCESSES, TREE, Seen
from rankd.services.watcher.model_name import UNKNOWN, model_name

COMPUTES = "dev/kfd"
"""The file through which all cards compute. Together with a card's own file it gives access to this card."""
_XGMI, _PCIE = 11, 2
_OWN_MEMORY = frozenset({1, 2})
"""Kinds of memory that are on the card: public and private."""
MODELS = {
    0x66A0: "mi60",
    0x66A1: "mi50",
    0x738C: "mi100",
    0x7408: "mi250x",
    0x740C: "mi250x",
    0x740F: "mi210",
    0x74A0: "mi300a",
    0x74A1: "mi300x",
    0x74A5: "mi325x",
    0x75A0: "mi350x",
    0x75A3: "mi355x",
}
"""By the number of the device on the bus, for kernels that publish no name of the product."""


class Node(NamedTuple):
    """A card in the tree. ``number``: its directory's name."""

    number: int
    directory: Path
    properties: dict[str, int]


class Kfd:
    """The tree below ``root``. Without the driver there is none, and no card is found."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._tree = root / TREE

    def look(self) -> list[Seen]:
        """All cards, in the order of the tree, which is that of the bus."""
        nodes = list(self._cards())
        ids = [_id(node) for node in nodes]
        groups = self._groups(nodes)
        users = self._users()
        return [
            self._seen(node, id_, index, groups[str(node.number)], users)
            for index, (node, id_) in enumerate(zip(nodes, ids, strict=True))
        ]

    def _cards(self) -> Iterator[Node]:
        """The nodes that are cards: processors are nodes, too, without units that compute as cards do."""
        with suppress(OSError):
            directories = [path for path in (self._tree / "topology/nodes").iterdir() if path.name.isdigit()]
            for path in sorted(directories, key=lambda path: int(path.name)):
                properties = _numbers(path / "properties")
                if properties.get("simd_count") and properties.get("drm_render_minor", -1) > 0:
                    yield Node(int(path.name), path, properties)

    def _seen(self, node: Node, id_: str, index: int, group: int, users: dict[int, list[int]]) -> Seen:
        minor = node.properties["drm_render_minor"]
        card = self._root / f"sys/class/drm/renderD{minor}/device"
        device = Device(model=_model(node, card), id=id_, index=index, group=group, memory=_memory(node))
        busy = _number(card / "gpu_busy_percent")
        return Seen(
            device=device,
            paths=[str(self._root / f"dev/dri/renderD{minor}"), str(self._root / COMPUTES)],
            busy=None if busy is None else min(1.0, busy / 100),
            memory_used=_number(card / "mem_info_vram_used"),
            pids=users.get(_number(node.directory / "gpu_id") or 0, [])[:MOST_PROCESSES],
        )

    def _groups(self, nodes: list[Node]) -> dict[str, int]:
        cards = {node.number for node in nodes}
        links, near = [], {}
        for node in nodes:
            for link in _links(node):
                kind, to = link.get("type"), link.get("node_to", 0)
                if kind == _XGMI and to in cards:
                    links.append((str(node.number), str(to)))
                elif kind == _PCIE and to not in cards:
                    near[str(node.number)] = to
        return groups_of([str(node.number) for node in nodes], links, near)

    def _users(self) -> dict[int, list[int]]:
        """The processes that have memory of a card, by the card's number."""
        found: dict[int, list[int]] = {}
        with suppress(OSError):
            for process in (self._tree / "proc").iterdir():
                for file in process.glob("vram_*"):
                    if _number(file):
                        found.setdefault(int(file.name.removeprefix("vram_")), []).append(int(process.name))
        return {card: sorted(pids) for card, pids in found.items()}


def _id(node: Node) -> str:
    """The id by which AMD's libraries choose a card; for cards without one, their place on the bus."""
    unique = node.properties.get("unique_id", 0)
    if unique:
        return f"GPU-{unique:016x}"
    place = node.properties.get("location_id", 0)
    return f"pci-{node.properties.get('domain', 0):04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}"


def _model(node: Node, card: Path) -> str:
    known = MODELS.get(node.properties.get("device_id", 0))
    if known:
        return known
    with suppress(OSError, UnicodeDecodeError):
        if (name := model_name((card / "product_name").read_text())) != UNKNOWN:
            return name
    version = node.properties.get("gfx_target_version", 0)
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else UNKNOWN


def _memory(node: Node) -> int:
    banks = [_numbers(path) for path in node.directory.glob("mem_banks/*/properties")]
    return sum(bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in _OWN_MEMORY)


def _links(node: Node) -> Iterator[dict[str, int]]:
    for kind in ("io_links", "p2p_links"):
        for path in sorted(node.directory.glob(f"{kind}/*/properties")):
            yield _numbers(path)


def _numbers(path: Path) -> dict[str, int]:
    """The lines ``name number`` of a file; empty if it can't be read."""
    with suppress(OSError, ValueError):
        pairs = (line.split() for line in path.read_text().splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) > 1}
    return {}


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None
