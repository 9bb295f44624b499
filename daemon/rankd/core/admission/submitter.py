"""Who asks for something, and with which rights."""

from __future__ import annotations

from typing import NamedTuple

from rankd.core.admission.queue_administration import AdministeredQueues
from rankd.core.model.setting import Privacy


class Submitter(NamedTuple):
    """The user who asks, and whether as an administrator: see :func:`.standing.standing`.

    ``via``: the gateway that vouches for the user; None where the broker does. ``is_operator``: may also act on nodes.
    ``sees``: what the user sees of others' jobs. ``queues``: those whose jobs the user administers; it is set for
    requests that change jobs, and None otherwise.
    """

    user: str
    privileged: bool
    via: str | None = None
    is_operator: bool = False
    sees: Privacy = "all"
    queues: AdministeredQueues | None = None
