"""Messages of looking commands about silent services and nodes: on standard error, one line each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rankd.cli.common.duration import shown_duration, shown_time
from rankd.core.model.nodelist import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SERVICE_UNHEARD_S = 20.0
"""Services leave a sign of life every 5 s."""
WRITER = "intake"
"""This service records what nodes report. While it is silent, records of nodes and jobs do not change."""


class Known:
    """Until when the records are up to date: :attr:`until` for most of them, :meth:`of` for jobs on nodes."""

    def __init__(self, services: Mapping[str, float], silent: Mapping[str, float], now: float) -> None:
        self.now = now
        self._silent = {name: at for name, at in services.items() if now - at > SERVICE_UNHEARD_S}
        self._all_silent = bool(services) and len(self._silent) == len(services)
        self.until = self._silent.get(WRITER, now)
        self._nodes = silent

    def of(self, nodes: Iterable[str]) -> float:
        """Until when the state of a job on these nodes is known."""
        return min((self._nodes[node] for node in nodes if node in self._nodes), default=self.until)

    def of_services(self) -> str | None:
        """The message about silent services. None if no service is silent."""
        if not self._silent:
            return None
        who = (
            "services have"
            if self._all_silent
            else f"{' and the '.join(sorted(self._silent))} " + ("have" if len(self._silent) > 1 else "has")
        )
        since = max(self._silent.values())
        stale = "; times and states are as of then" if WRITER in self._silent else ""
        return f"the {who} not been heard of since {self._since(since)}{stale}"

    def of_nodes(self, nodes: Iterable[str]) -> str | None:
        """The message about the silent ones of these nodes. None if none of them is silent."""
        silent = sorted({node for node in nodes if node in self._nodes})
        if not silent:
            return None
        since = min(self._nodes[node] for node in silent)
        word, have = ("node", "has") if len(silent) == 1 else ("nodes", "have")
        return f"{word} {fold(silent)} {have} not been heard of since {self._since(since)}; states there are as of then"

    def _since(self, at: float) -> str:
        return f"{shown_time(at)} ({shown_duration(self.now - at)} ago)"


def say(line: str | None) -> None:
    """Print the line on standard error, so that it never mixes with output for programs."""
    if line is not None:
        print(f"rankd: {line}", file=sys.stderr)
