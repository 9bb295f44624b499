"""The watcher's process: looks at all devices every few seconds, and writes what it sees to its standard output.

It is a process of its own because a call of a vendor's library may hang for minutes, or end the process, if a card is
sick. Its agent notices that by its silence, and nothing else of the node waits for it. It ends when its standard input
is closed, which the end of its agent does, too.

Run as ``python -m rankd.services.watcher.service LIBRARY ROOT``.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import pynvml

from rankd.services.watcher.kfd import Kfd
from rankd.services.watcher.message import LONGEST_FAULT, MOST_DEVICES, NOTHING, TREE, Look, Seen, line
from rankd.services.watcher.nvml import Nvml

EVERY_S = 10.0
SLICE_S = 0.5
"""How long it waits at once for an error of a card, before it looks whether its agent is still there."""


class Vendor(Protocol):
    """What finds the cards of one vendor."""

    def look(self) -> list[Seen]:
        """All cards at present."""


def look(vendors: Iterable[Vendor]) -> Look:
    """One look at the cards of all vendors. An error of one vendor's library does not hide the others' cards."""
    seen: list[Seen] = []
    problem = None
    for vendor in vendors:
        try:
            seen += vendor.look()
        except Exception as error:  # noqa: BLE001 - whatever a library raises, the agent has to know
            problem = f"{type(error).__name__}: {error}"[:LONGEST_FAULT]
    return Look(devices=seen[:MOST_DEVICES], problem=problem)


def _until_next(nvml: Nvml | None, seconds: float) -> bool:
    """Wait for the next look, or for an error of a card; returns False once the agent has gone."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        wait_s = min(SLICE_S, left)
        is_asked = select.select([0], [], [], 0 if nvml else wait_s)[0]
        if is_asked and not os.read(0, 4096):
            return False
        if is_asked or (nvml and _has_error(nvml, wait_s)):
            return True
    return True


def _has_error(nvml: Nvml, wait_s: float) -> bool:
    try:
        return nvml.wait(wait_s)
    except Exception:  # noqa: BLE001 - the next look has the same error, and reports it
        time.sleep(wait_s)
        return False


def _open(name: str, root: Path) -> tuple[Nvml | None, str | None]:
    """NVIDIA's library, or why it can't be used; neither if this machine has no such card."""
    try:
        return Nvml(name, root), None
    except (OSError, pynvml.NVMLError_DriverNotLoaded):
        return None, None
    except Exception as error:  # noqa: BLE001 - such as a library of another version than the driver
        return None, f"{type(error).__name__}: {error}"[:LONGEST_FAULT]


def main(arguments: list[str]) -> int:
    """Look until the agent has gone."""
    name, root = arguments[0], Path(arguments[1])
    nvml, problem = _open(name, root)
    if nvml is None and problem is None and not (root / TREE).exists():
        return NOTHING
    vendors: list[Vendor] = [*([nvml] if nvml else []), Kfd(root)]
    while True:
        found = look(vendors)
        answer = line(Look(devices=found.devices, problem=problem or found.problem))
        try:
            while answer:
                answer = answer[os.write(1, answer) :]
        except BrokenPipeError:
            return 0
        if not _until_next(nvml, EVERY_S):
            return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
