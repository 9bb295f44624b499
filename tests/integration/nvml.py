"""A machine with NVIDIA's cards for tests: the stand-in of the shared library, and the files that it answers from."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).with_name("nvml_stand_in.c")
NAME = "libnvidia-ml.so.1"
GIB = 2**30

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the stand-in of NVML")


class Card(NamedTuple):
    id: str
    name: str = "NVIDIA A100-SXM4-80GB"
    minor: int = 0
    address: str = "00000000:3B:00.0"
    total: int = 80 * GIB
    used: int = 0
    busy: int = 0
    parted: int = 0
    errors: int = 0
    lost: int = 0
    pids: tuple[int, ...] = ()
    links: tuple[str, ...] = ()


class Part(NamedTuple):
    card: int
    id: str
    name: str
    gi: int
    ci: int = 0
    slices: int = 1
    mebibytes: int = 9728
    used: int = 0
    pids: tuple[int, ...] = ()


class Machine:
    """The directory of a stand-in. ``library`` is its path."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.library = directory / NAME
        self.root = directory / "root"
        directory.mkdir(exist_ok=True)
        self.root.mkdir(exist_ok=True)
        flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f'-DDIRECTORY="{directory}"']
        subprocess.run(["cc", *flags, "-o", str(self.library), str(SOURCE)], check=True)

    def has(self, *devices: Card | Part) -> None:
        """From the next question on."""
        lines = [f"{'card' if isinstance(d, Card) else 'part'} {'|'.join(map(_text, d))}\n" for d in devices]
        made = self.directory / "cards.new"
        made.write_text("".join(lines))
        made.rename(self.directory / "cards")

    def tell(self, card: str, kind: int, data: int) -> None:
        """An error of a card."""
        made = self.directory / "event.new"
        made.write_text(f"{card} {kind} {data}\n")
        made.rename(self.directory / "event")

    def file(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def _text(value: object) -> str:
    return (",".join(map(str, value)) or "-") if isinstance(value, tuple) else str(value)
