"""An administrator who reloads other configurations, some of them half written, whatever is at fault just then.

It sleeps between reloads, and before it asks again.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

from soak.cluster import Cluster
from soak.workload import LOST, quiet

from rankd.bus.client import PatientClient

PAUSE_S = (0.5, 4.0)
PATIENCE_S = 5.0
AGAIN_S = 0.2
SERVICES = ("scheduler", "prioritizer")
QUEUES = "partitions: [{name: default, queues: [{name: root, queues: [{name: default}%s]}]}]\n"


def replace(path: Path, text: str) -> None:
    """At once: a reload that was not answered in time may read the files just now."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


class Reloads:
    """``count``: what became of the requests."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.count = {"taken": 0, "refused": 0, "unanswered": 0}
        self._cluster = cluster
        self._random = random.Random(seed)
        self._age = 1000

    async def run(self, seconds: float) -> None:
        """Reload now and then; a whole configuration first, since an intake that has recorded none needs one."""
        end = asyncio.get_running_loop().time() + seconds
        while await self._reload() is None and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(AGAIN_S)
        while asyncio.get_running_loop().time() < end:
            self._write(half=self._random.random() < 0.2)
            await self._reload()
            await asyncio.sleep(self._random.uniform(*PAUSE_S))

    async def settle(self, patience_s: float) -> list[str]:
        """A last one; all services must go by it, and a generation must be of it."""
        self._write(half=False)
        end = asyncio.get_running_loop().time() + patience_s
        wanted, found = None, {}
        while asyncio.get_running_loop().time() < end:
            answer = await self._reload() if wanted is None else None
            wanted = wanted or (answer or {}).get("number")
            shown = await self._ask("user.ann.diag.show") or {}
            parts = {"intake": shown, **{name: shown.get(name) for name in SERVICES}}
            found = {name: ((part or {}).get("configuration") or {}).get("number") for name, part in parts.items()}
            if wanted is not None and set(found.values()) == {wanted}:
                return []
            await asyncio.sleep(AGAIN_S)
        return [f"configuration {wanted} was recorded last, in force are {found}"]

    def _write(self, *, half: bool) -> None:
        """Other weights, another QoS, another queue; usage must cost the same."""
        self._age = self._random.randrange(1, 10_000)
        text = self._cluster.settings.replace("age = 1000", f"age = {self._age}")
        if self._random.random() < 0.5:
            text += '[[qos]]\nname = "night"\npriority = 5\n'
        more = ", {name: more}" if self._random.random() < 0.5 else ""
        directory = self._cluster.directory / "config"
        replace(directory / "rankd.toml", text[: len(text) // 2] + " [" if half else text)
        replace(directory / "queues.yaml", QUEUES % more)

    async def _reload(self) -> dict[str, Any] | None:
        answer = await self._ask("admin.root.config.reload")
        kind = "unanswered" if answer is None else "taken" if "number" in answer else "refused"
        self.count[kind] += 1
        return answer

    async def _ask(self, verb: str) -> dict[str, Any] | None:
        """The answer; None if there was none."""
        try:
            client = PatientClient()
            await client.connect(self._cluster.urls, allow_reconnect=False, connect_timeout=1, error_cb=quiet)
        except LOST:
            return None
        try:
            reply = await client.request(f"rankd.v1.{verb}", b"{}", timeout=PATIENCE_S)
            return json.loads(reply.data)
        except LOST:
            return None
        finally:
            await client.close()
