"""The notifier as `rankd up` runs it: its rights at the broker, and a crash between sending and recording."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import nats
from integration.notify_stage import OK, Hook
from system.conftest import Machine
from watch import PATIENCE_S, gone

from rankd.identity.signing_key import signature
from rankd.store.schema.migration import shipped


def configure(home: Path, hook: Hook) -> Path:
    directory = home / "etc"
    directory.mkdir()
    for file in shipped("config").glob("*.*"):
        (directory / file.name).write_bytes(file.read_bytes())
    text = (directory / "rankd.toml").read_text()
    allowed = f'allow = ["https://localhost:{hook.port}/*"]\nprivate_hosts = ["localhost"]\nca_file = "{hook.ca}"\n'
    (directory / "rankd.toml").write_text(f"{text}\n[notifications]\n{allowed}")
    return directory


async def rankd(machine: Machine, *words: str) -> str:
    return await asyncio.to_thread(machine.rankd, *words)


async def diag_of_notifier(machine: Machine) -> dict:
    return json.loads(await rankd(machine, "diag", "--json"))["notifier"]


async def test_what_was_sent_and_not_recorded_is_sent_again_with_the_same_id(tmp_path, machine):
    """SIGKILL while the receiver has the message and has not answered."""
    async with Hook(tmp_path, None, OK) as hook:
        await asyncio.to_thread(machine.start, "--config", str(configure(tmp_path, hook)))
        await rankd(machine, "submit", "--notify", "end", "--notify-to", hook.url, "--wait", "--", "true")
        first = await hook.got()
        pid = machine.up["pids"]["notifier"]
        os.kill(pid, signal.SIGKILL)
        await gone(pid)
        second = await hook.got()
        assert first.headers["Rankd-Event-Id"] == second.headers["Rankd-Event-Id"]
        assert first.body == second.body
        key = (await rankd(machine, "auth", "notify-key")).strip()
        assert second.headers["Rankd-Signature"] == signature(key, second.body)
        async with asyncio.timeout(PATIENCE_S):
            while machine.rows("SELECT * FROM notifications WHERE state = 'waiting'"):
                await asyncio.sleep(0.05)
        shown = await diag_of_notifier(machine)
        assert (shown["sent"], shown["health"]["ready"]) == (1, True)
        assert "Notifier:" in await rankd(machine, "diag")
        renewed = (await rankd(machine, "auth", "notify-key", "--renew")).strip()
        assert renewed != key
        await rankd(machine, "submit", "--notify", "start", "--notify-to", hook.url, "--wait", "--", "true")
        third = await hook.got()
        assert third.headers["Rankd-Signature"] == signature(renewed, third.body)


async def test_the_notifier_reaches_little_at_the_broker(tmp_path, machine):
    async with Hook(tmp_path) as hook:
        await asyncio.to_thread(machine.start, "--config", str(configure(tmp_path, hook)))
        refused = asyncio.Queue()

        async def on_error(error: Exception) -> None:
            refused.put_nowait(str(error).lower())

        creds = machine.directory / "auth" / "notifier.creds"
        client = await nats.connect(
            machine.up["nats"], user_credentials=str(creds), error_cb=on_error, inbox_prefix=b"_INBOX.notifier"
        )
        try:
            info = await client.jetstream().consumer_info("RANKD_EVENTS", "notifier")
            assert info.config.filter_subject == "rankd.v1.event.job.*"
            for subject in (
                "rankd.v1.admin.root.job.cancel", "rankd.v1.user.alice.job.submit", "rankd.v1.node.n1.allocation",
                "rankd.v1.gateway.head.alice.job.submit", "rankd.v1.event.job.alice", "rankd.v1.enqueue.alice",
                "$JS.API.STREAM.DELETE.RANKD_EVENTS", "$JS.API.CONSUMER.DURABLE.CREATE.RANKD_EVENTS.other",
                "$JS.API.CONSUMER.DELETE.RANKD_EVENTS.notifier", "$SYS.REQ.SERVER.PING", "_INBOX.other.1",
            ):  # fmt: skip
                await client.publish(subject, b"{}")
                async with asyncio.timeout(PATIENCE_S):
                    assert "permissions violation" in await refused.get(), subject
            for subject in ("rankd.v1.event.>", "rankd.v1.user.>", "_INBOX.>", "rankd.v1.deadletter.*", ">"):
                await client.subscribe(subject)
                async with asyncio.timeout(PATIENCE_S):
                    assert "permissions violation" in await refused.get(), subject
        finally:
            await client.close()


async def test_the_notifier_starts_once_notifications_are_allowed(tmp_path, machine):
    async with Hook(tmp_path) as hook:
        directory = configure(tmp_path, hook)
        whole = (directory / "rankd.toml").read_text()
        (directory / "rankd.toml").write_text(whole.partition("[notifications]\nallow")[0])
        await asyncio.to_thread(machine.start, "--config", str(directory))
        assert "notifier" not in machine.up["pids"]
        assert await diag_of_notifier(machine) is None
        assert "Notifier" not in await rankd(machine, "diag")
        (directory / "rankd.toml").write_text(whole)
        await rankd(machine, "reload", "--admin")
        await rankd(machine, "submit", "--notify", "end", "--notify-to", hook.url, "--", "true")
        await hook.got()
        async with asyncio.timeout(PATIENCE_S):
            while "notifier" not in machine.up["pids"]:
                await asyncio.sleep(0.05)


def test_no_notifier_runs_where_another_unit_has_it(machine):
    machine.start("--no-notifier")
    assert "notifier" not in machine.up["pids"]
