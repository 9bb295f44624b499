"""A NATS client: what any program of a user can do. Of rankd it has the client whose flush keeps the order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats.errors
import nats.js.errors
from watch import PATIENCE_S

from rankd.bus.client import PatientClient


class Client:
    """Requests on subjects, and the job events from their stream."""

    def __init__(self, connection: PatientClient) -> None:
        self.connection = connection
        self._events: Any = None
        self.ended: dict[int, str] = {}

    async def ask(self, subject: str, body: Any) -> Any:
        """The decoded reply."""
        reply = await self.connection.request(subject, json.dumps(body).encode(), timeout=PATIENCE_S)
        return json.loads(reply.data)

    async def submit(self, user: str, *jobs: dict[str, Any]) -> list[int]:
        reply = await self.ask(f"rankd.v1.user.{user}.job.submit", {"jobs": list(jobs)})
        assert not reply["rejected"], reply
        return [accepted["id"] for accepted in reply["accepted"]]

    async def until_ended(self, count: int) -> dict[int, str]:
        """Wait for the events of ``count`` jobs' ends; final state by job."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.ended) < count:
                await self._take_events()
        return self.ended

    @asynccontextmanager
    async def news(self):
        """Yields what waits until a condition holds; it looks after each event of a job or node."""
        heard = asyncio.Event()

        async def hear(_message: object) -> None:
            heard.set()

        async def until(condition: Callable[[], Any]) -> Any:
            async with asyncio.timeout(PATIENCE_S):
                while not (found := await asyncio.to_thread(condition)):
                    await heard.wait()
                    heard.clear()
            return found

        events = await self.connection.subscribe("rankd.v1.event.>", cb=hear)
        yield until
        await events.unsubscribe()

    async def _take_events(self) -> None:
        try:
            if self._events is None:
                stream = self.connection.jetstream()
                self._events = await stream.pull_subscribe("rankd.v1.event.job.>", durable="test")
            messages = await self._events.fetch(1, timeout=1)
        except (TimeoutError, nats.errors.Error, nats.js.errors.Error):
            return
        for message in messages:
            for event in json.loads(message.data)["events"]:
                if event["state"] not in ("pending", "allocated", "running"):
                    self.ended[event["job"]] = event["state"]
            await message.ack()


async def _quiet(_error: Exception) -> None:
    """The broker is killed on purpose."""


@asynccontextmanager
async def connected(url: str, credentials: Path | None = None):
    connection = PatientClient()
    await connection.connect(
        url,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0.1,
        error_cb=_quiet,
        user_credentials=None if credentials is None else str(credentials),
    )
    try:
        yield Client(connection)
    finally:
        await connection.close()
