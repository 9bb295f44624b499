"""A real cluster of three nats-servers on loopback, of which tests kill and start one after the other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from integration.conftest import Broker
from nats.js.api import StreamInfo
from watch import PATIENCE_S

from rankd.bus.connection import LOST, Bus
from rankd.core.errors import Unavailable

SIZE = 3
LOOK_S = 0.05
ASK_S = 0.5
"""A broker without a leader for streams does not answer. So it is asked again soon."""


class BrokerCluster:
    """Three brokers. ``more``: further lines of each one's configuration, by its number."""

    def __init__(self, directory: Path, more: Callable[[int], str] = lambda _number: "") -> None:
        ports = free_ports(2 * SIZE)
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports[SIZE:])
        self.brokers = [
            Broker(
                directory / f"broker-{number}",
                f"server_name: b{number}\n"
                f"cluster {{ name: rankd, host: 127.0.0.1, port: {ports[SIZE + number]}, routes: [{routes}] }}\n"
                f"{more(number)}",
            )
            for number in range(SIZE)
        ]
        for broker, port in zip(self.brokers, ports, strict=False):
            broker._port = port

    @property
    def url(self) -> str:
        return ",".join(broker.url for broker in self.brokers)

    def start(self) -> None:
        for broker in self.brokers:
            broker.start()

    def kill(self) -> None:
        for broker in self.brokers:
            broker.kill()

    def leader_of(self, info: StreamInfo) -> Broker:
        return self.brokers[int(info.cluster.leader.removeprefix("b"))]


def free_ports(number: int) -> Sequence[int]:
    """Ports that nobody listens on. They are all found before one is used."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


async def until(condition: Callable[[], Awaitable[object]]) -> object:
    """What the condition returns once that counts as true. A broker that is away makes no difference."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                if found := await condition():
                    return found
            except (*LOST, Unavailable):
                pass
            await asyncio.sleep(LOOK_S)


async def ready(bus: Bus) -> None:
    """Until the cluster takes streams."""
    await until(bus.client.jetstream(timeout=ASK_S).account_info)


async def whole(bus: Bus, *streams: str) -> None:
    """Until all copies of these streams have what their leaders have."""

    async def is_whole() -> bool:
        found = [(await bus.jetstream.stream_info(stream)).cluster for stream in streams]
        return all(one.leader and all(peer.current and not peer.offline for peer in one.replicas) for one in found)

    await until(is_whole)
