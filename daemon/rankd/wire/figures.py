"""What a service answers to a request for its figures, which ``rankd up`` and the page collect for ``/metrics``."""

from __future__ import annotations

import msgspec

from rankd.core.metric.figure import Figure


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one process of ``service``."""

    service: str
    figures: list[Figure]
