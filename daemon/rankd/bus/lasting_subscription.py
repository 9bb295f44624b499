"""A subscription that should last as long as its connection, watched as a loop.

nats-py runs a task per subscription that hands each message to its handler. If that task ends, or a handler hangs,
messages are dropped and nothing is reported. Here the loop beats while the task lives and handles what arrives.
"""

from __future__ import annotations

import asyncio

from nats.aio.client import Client
from nats.aio.subscription import Subscription

from rankd.bus.liveness import Loops


class LastingSubscription:
    """One subscription, registered as a loop among ``loops``."""

    def __init__(self, subscription: Subscription, loops: Loops) -> None:
        self.subscription = subscription
        self._loops = loops
        self._loop = loops.add(f"subscription {subscription._id} on {subscription.subject}")  # noqa: SLF001
        self._handled = 0

    def look(self, client: Client) -> None:
        """Beat if the subscription is alive and has handled a message since the last look, or has none to handle."""
        subscription = self.subscription
        task: asyncio.Task[None] | None = subscription._wait_for_msgs_task  # noqa: SLF001 - nats-py has no public way to any of this
        if task is None or task.done() or client._subs.get(subscription._id) is not subscription:  # noqa: SLF001
            return
        unfinished: int = getattr(subscription._pending_queue, "_unfinished_tasks")  # noqa: SLF001, B009 - not in asyncio's types
        handled = subscription.delivered - unfinished
        if not unfinished or handled != self._handled:
            self._handled = handled
            self._loop.beat()

    def drop(self) -> None:
        """Forget its loop, because the subscription ends on purpose."""
        self._loops.drop(self._loop.name)
