"""One user sends the largest messages on many connections at once: nobody is cut off, and another user is answered."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

from watch import PATIENCE_S

from rankd.bus.client import PatientClient
from rankd.identity.site import USER_LIMITS
from rankd.services.up.broker import MAX_PAYLOAD, MAX_PENDING

CONNECTIONS = 30
"""With 8 MB each, they made the broker end the intake's connection."""


async def connected(machine, creds):
    connection = PatientClient()
    await connection.connect(machine.up["nats"], user_credentials=str(creds), pending_size=2**30)
    return connection


async def flood(machine, creds):
    async with AsyncExitStack() as stack:
        clients = [await connected(machine, creds["alice"]) for _ in range(CONNECTIONS)]
        bob = await connected(machine, creds["bob"])
        for client in [*clients, bob]:
            stack.push_async_callback(client.close)
        payload = b"x" * clients[0].max_payload
        for client in clients:
            await client.publish("rankd.v1.user.alice.job.submit", payload, reply=client.new_inbox())
        sending = asyncio.gather(*(client.flush(timeout=PATIENCE_S) for client in clients))
        reply = await bob.request("rankd.v1.user.bob.job.list", b"{}", timeout=PATIENCE_S)
        await sending
        last = await bob.request("rankd.v1.user.bob.job.list", b"{}", timeout=PATIENCE_S)
        return json.loads(reply.data), json.loads(last.data)


def test_the_largest_messages_of_one_user_cut_nobody_off(machine):
    machine.start("--no-local-agent")
    creds = {user: machine.credentials("user", user) for user in ("alice", "bob")}
    assert asyncio.run(flood(machine, creds)) == ({"jobs": []}, {"jobs": []})
    log = (machine.directory / "log" / "intake.log").read_text()
    assert "no connection to the broker" not in log


def test_all_connections_of_a_user_together_may_send_less_than_may_wait():
    assert USER_LIMITS.connections * int(MAX_PAYLOAD.removesuffix("MB")) < 1_000 * int(MAX_PENDING.removesuffix("GB"))
