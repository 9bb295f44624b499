"""Asks a service for its figures (:class:`rankd.wire.figures.Figures`)."""

from __future__ import annotations

import logging

import msgspec

from rankd.bus.connection import Bus
from rankd.core.errors import RankdError
from rankd.core.metric.figure import Figure
from rankd.wire.figures import Figures
from rankd.wire.subject import figures_subject

log = logging.getLogger("rankd.bus")

TIMEOUT_S = 1.0
MOST = 5_000
"""Figures of one service. Further ones are left out."""


async def ask_figures(bus: Bus, service: str) -> list[Figure]:
    """The figures of a service; none if it does not answer."""
    try:
        found = await bus.request(figures_subject(service), b"", Figures, timeout_s=TIMEOUT_S)
    except RankdError:
        return []
    except msgspec.MsgspecError as error:
        log.warning("the figures of %s can't be read: %s; is it of another version?", service, error)
        return []
    return found.figures[:MOST]
