"""The order in which several workers take the tests: the longest modules first, spread over the workers.

Each worker of pytest-xdist gets an equal number of the tests, in their order. One that has no more takes the last ones
of another. In the order of their names, the longest tests are all at the end, and three workers wait for the fourth.
So each worker's share begins with some of the longest modules, and ends with many short tests, which others may take.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).parent
SECONDS = {"browser": 5.0, "system": 4.0, "fuzz": 5.0, "integration": 1.0, "properties": 0.5, "contract": 0.3}
"""About how long a test takes, by the folder of ``tests``. In other folders, tests are short."""
LONG = {
    "integration/test_db_copy.py": 8.0,
    "integration/test_garbage.py": 15.0,
    "integration/test_job_update.py": 8.0,
    "integration/test_outage.py": 8.0,
    "integration/test_plugin_fault.py": 3.0,
    "integration/test_upgrade.py": 20.0,
    "properties/test_array_placement.py": 0.1,
    "properties/test_dependency_life.py": 15.0,
    "properties/test_site_copy.py": 10.0,
    "properties/test_view.py": 3.0,
    "system/test_delivery.py": 15.0,
    "system/test_device_fault.py": 20.0,
    "system/test_docs_run.py": 20.0,
    "system/test_enrolment.py": 12.0,
    "system/test_identity.py": 6.0,
    "system/test_invitation_tls.py": 20.0,
    "system/test_login_socket.py": 40.0,
    "system/test_rights_table.py": 0.2,
    "system/test_soak.py": 90.0,
    "system/test_soak_cluster.py": 80.0,
    "system/test_source.py": 15.0,
    "system/test_up_postgres.py": 15.0,
    "system/test_update.py": 15.0,
    "unit/cli/common/test_output.py": 3.0,
}
"""The same for modules whose tests take longer or shorter than others of their folder."""
APART = ("system/test_docs_run.py", "properties/test_view.py")
"""Modules whose tests share nothing, and may be taken by different workers."""


class Item(Protocol):
    """What this module uses of pytest's items."""

    @property
    def nodeid(self) -> str:
        """Such as ``tests/system/test_up.py::test_it_starts``."""


def spread(items: Sequence[Item], workers: int) -> list[Item]:
    """The items in such an order that each of equal shares has about the same work, its longest modules first."""
    parts = sorted(_parts(items), key=lambda part: -_seconds(part))
    long = [part for part in parts if _seconds(part)]
    short = [item for part in parts if not _seconds(part) for item in part]
    shares = _dealt(long, workers)
    left = len(items)
    for place, share in enumerate(shares):
        count = left // (workers - place)  # as pytest-xdist deals them
        left -= count
        missing = max(0, count - len(share))
        share.extend(short[:missing])
        del short[:missing]
    return [item for share in shares for item in share] + short


def _dealt(parts: Sequence[Sequence[Item]], workers: int) -> list[list[Item]]:
    """Each part, from the longest one on, goes to the share with the least work."""
    shares: list[list[Item]] = [[] for _ in range(workers)]
    least = [(0.0, worker) for worker in range(workers)]
    for part in parts:
        work, worker = heapq.heappop(least)
        shares[worker] += part
        heapq.heappush(least, (work + _seconds(part), worker))
    return shares


def _parts(items: Sequence[Item]) -> list[list[Item]]:
    """The tests of each module together, since they may share what one fixture starts."""
    parts: list[list[Item]] = []
    for module, group in groupby(items, _module):
        tests = list(group)
        parts += [[test] for test in tests] if module in APART else [tests]
    return parts


def _seconds(part: Sequence[Item]) -> float:
    return len(part) * LONG.get(_module(part[0]), SECONDS.get(_folder(part[0]), 0.0))


def _module(item: Item) -> str:
    return item.nodeid.partition("::")[0].partition("/")[2]


def _folder(item: Item) -> str:
    return _module(item).partition("/")[0]
