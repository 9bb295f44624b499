"""All looks of the page, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankd.store.look.web.form import FORM
from rankd.store.look.web.job import FORMS, IS_OVER, JOB, WHY
from rankd.store.look.web.look import Look
from rankd.store.look.web.me import ME
from rankd.store.look.web.nodes import NODES
from rankd.store.look.web.queue import QUEUE
from rankd.store.look.web.queues import QUEUES
from rankd.store.look.web.services import SERVICES
from rankd.store.look.web.shares import SHARES
from rankd.store.look.web.site import NEWEST, PLACES, SETTINGS

LOOKS: Mapping[str, Look[Any]] = {
    look.name: look
    for look in (
        QUEUE, JOB, WHY, FORMS, IS_OVER, QUEUES, SHARES, NODES, ME, SERVICES, FORM, NEWEST, SETTINGS, PLACES,
    )
}  # fmt: skip
