"""Services: their signs of life, and what they recorded lately."""

from __future__ import annotations

import json
from typing import NamedTuple

from rankd.core.admission.permission import may
from rankd.core.admission.submitter import Submitter
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.service_list import services
from rankd.store.look.service_past import adapter_readings, last_configurations, last_generations
from rankd.store.look.web.look import Given, Look

PASSES = 120
CONFIGURATIONS = 15
SHOWN_CHANGES = 5


class ServicesShown(NamedTuple):
    """``silent``: the nodes that are. ``configurations``: only administrators see more than their numbers and times."""

    services: list[Row]
    silent: list[Row]
    passes: list[Row]
    configurations: list[Row]
    adapters: list[Row]


def _services(reader: Reader, asker: Submitter, _given: Given) -> ServicesShown:
    alive, past = services(reader), last_configurations(reader, CONFIGURATIONS)
    return ServicesShown(
        alive["services"],
        alive["nodes"],
        last_generations(reader, PASSES),
        [_seen(row, asker) for row in past],
        adapter_readings(reader),
    )


SERVICES = Look("services", ServicesShown, _services, is_list=True)


def _seen(row: Row, asker: Submitter) -> Row:
    """A configuration as this asker sees it: as ``report.make configurations``, only administrators see all of it."""
    if may(asker, "report.make configurations") is None:
        return row | {"changes": _changes(row["changes"])}
    return {**dict.fromkeys(row), "number": row["number"], "at": row["at"], "changes": []}


def _changes(text: str | list[Row]) -> list[str]:
    """What changed, one line each."""
    changes = json.loads(text) if isinstance(text, str) else text
    return [f"{one.get('file')}: {one.get('key')} = {one.get('new')}" for one in changes[:SHOWN_CHANGES]]
