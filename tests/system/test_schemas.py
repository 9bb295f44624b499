"""Real requests and real replies of every verb have the form that the published schemas say, and no field more."""

from __future__ import annotations

import asyncio
import json
from typing import NamedTuple

import jsonschema
import pytest
from system.client import connected
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.identity.credentials import source_of
from rankd.wire.schema import digest, document
from rankd.wire.verb import VERBS

NEVER = {"command": ["true"], "resources": {"vcore": 1000}}
ENDED = {"completed", "failed", "cancelled", "timeout", "node_lost"}


def strict(schemas: dict, kind: str) -> jsonschema.Draft202012Validator:
    """A validator that refuses fields that the schema does not name, in replies, too."""

    def closed(value):
        if isinstance(value, list):
            return [closed(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        more = {"additionalProperties": False} if "properties" in value and "additionalProperties" not in value else {}
        return {name: closed(inner) for name, inner in value.items()} | more

    whole = closed(schemas)
    return jsonschema.Draft202012Validator({**whole[kind], "$defs": whole["$defs"]})


class Submitted(NamedTuple):
    """The ids of three jobs: one of a script, one that never starts, and one that fails."""

    script: int
    never: int
    fails: int


class Checked:
    """A client whose every request and reply is validated against the schemas that the service gives for the verb."""

    def __init__(self, client, subject: str) -> None:
        self._client = client
        self._subject = subject
        self.seen = set[str]()

    async def ask(self, verb: str, body: dict, *, refused: str | None = None) -> dict:
        schemas = await self._client.ask(f"{self._subject}.schema.show", {"verb": verb})
        forms = {**schemas["verbs"][verb], "error": schemas["error"], "$defs": schemas["$defs"]}
        strict(forms, "request").validate(body)
        reply = await self._client.ask(f"{self._subject}.{verb}", body)
        assert reply.get("code") == refused, reply
        strict(forms, "reply" if refused is None else "error").validate(reply)
        self.seen.add(verb)
        return reply

    async def until(self, verb: str, body: dict, condition) -> dict:
        """Ask until the reply is so."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition(reply := await self.ask(verb, body)):
                await asyncio.sleep(0.1)
        return reply


@pytest.fixture
def site(machine):
    machine.start("--simulate", "2")
    return machine


async def test_every_request_and_reply_has_the_form_that_its_schema_says(site, tmp_path):
    site.rankd("auth", "creds", "--admin", "--user", "carol", "--out", str(carol := tmp_path / "carol.creds"))
    async with connected(site.up["nats"], carol) as client:
        checked = Checked(client, "rankd.v1.admin.carol")
        submitted = await _submit(checked)
        await _jobs(checked, submitted)
        await _tables(checked)
        await _changes(checked, submitted)
        await _reports(checked)
        await _letters(site, checked)
    assert checked.seen == set(VERBS)


async def _submit(checked: Checked) -> Submitted:
    array = await checked.ask("job.submit", {"command": ["true"], "array": "0-3%2"})
    assert array == {"id": 1, "tasks": 4}
    tested = await checked.ask("job.test", {"command": ["true"], "array": "0-3%2", "held": True})
    assert (tested["tasks"], [wait["reason"] for wait in tested["waits"]]) == (4, ["held"])
    script = {"command": ["s"], "script": "#!/bin/sh\ntrue\n", "env": {"A": "b"}, "comment": "x", "time_limit_s": 60}
    scripted = await checked.ask("job.submit", script)
    assert scripted.keys() == {"id"}, "its number is not always 2: tasks that start have records, too"
    first = {"type": "afterok", "job": scripted["id"]}
    waiting = {**NEVER, "application": "app", "begin_at": None, "depends_on": [first]}
    other = {**NEVER, "user": "alice", "urgency": 20}
    jobs = [NEVER, waiting, other, {**NEVER, "queue": "nowhere"}, {"command": ["false"]}]
    batch = await checked.ask("job.submit", {"jobs": jobs})
    assert [len(batch["accepted"]), len(batch["rejected"])] == [4, 1]
    await checked.ask("job.submit", {"command": []}, refused="empty_command")
    return Submitted(scripted["id"], batch["accepted"][0]["id"], batch["accepted"][-1]["id"])


async def _jobs(checked: Checked, submitted: Submitted) -> None:
    script, never, fails = submitted
    for job in (1, script, fails):
        await checked.until("job.show", {"id": job}, lambda record: record["state"] in ENDED)
    pending = await checked.until("job.show", {"id": never}, lambda record: record["priority_breakdown"])
    assert pending["priority_breakdown"]["factors"]
    await checked.ask("job.show", {"id": "1_2"})
    await checked.ask("job.show", {"id": 999}, refused="unknown_job")
    await checked.ask("job.script", {"id": script})
    await checked.ask("job.log", {"id": never, "tail_lines": 10}, refused="not_started")
    await checked.ask("job.attach", {"id": never}, refused="not_started")
    await checked.until("job.why", {"id": never}, lambda why: why["above"] or why["below"])
    await checked.ask("job.why", {"id": script})
    await checked.until("job.when", {"id": never}, lambda when: when["made_at"])
    await checked.ask("job.when", {"id": script})
    assert (await checked.ask("job.history", {"id": script, "limit": 1}))["next"]
    assert (await checked.ask("job.events", {"after": 0, "limit": 5}))["more"]
    for verb in ("job.list", "job.acct", "priority.list"):
        page = await checked.ask(verb, {"limit": 1, "count": True})
        assert page["next"]
        assert page["jobs"], verb
        await checked.ask(verb, {"limit": 1, **page["next"]})


async def _tables(checked: Checked) -> None:
    for verb, name in (("node.list", "nodes"), ("queue.list", "queues"), ("share.list", "shares")):
        page = await checked.ask(verb, {"limit": 1})
        assert len(page[name]) == 1
        await checked.ask(verb, {"limit": 1, **page["next"]})
        await checked.ask(verb, {})
    for verb in ("service.list", "device.list", "diag.show", "class.list", "site.show", "deadletter.list"):
        await checked.ask(verb, {})
    await checked.ask("class.show", {"name": "high"})
    await checked.ask("page.look", {"look": "queue", "given": {"state": "waiting"}})
    await checked.ask("page.look", {"look": "nothing"}, refused="unknown_look")


async def _changes(checked: Checked, submitted: Submitted) -> None:
    script, never, _ = submitted
    assert await checked.ask("job.hold", {"id": never}) == {"done": [never], "failed": []}
    assert (await checked.ask("job.release", {"ids": [script, never]}))["failed"]
    await checked.ask("job.retry", {"id": script, "held": True, "key": "again"})
    await checked.ask("job.update", {"id": never, "resources": {"vcore": 900}, "comment": None, "depends_on": []})
    await checked.ask("job.signal", {"ids": [script, never], "signal": "USR1"})
    await checked.ask("job.signal", {"id": never, "signal": 10}, refused="not_running")
    assert (await checked.ask("job.cancel", {"filter": {"states": ["pending"]}}))["done"]
    access = {"users": ["alice"], "groups": []}
    await checked.ask("class.create", {"name": "night", "value": 5, "access": access})
    await checked.ask("class.update", {"name": "night", "value": 5, "description": "late", "access": None})
    await checked.ask("class.delete", {"name": "night"})
    node = (await checked.ask("node.list", {"limit": 1}))["nodes"][0]["name"]
    await checked.ask("node.drain", {"node": node, "reason": "disks"})
    await checked.ask("node.list", {})
    await checked.ask("node.resume", {"nodes": [node]})
    for verb in ("node.device_drain", "node.device_fail"):
        await checked.ask(verb, {"node": node, "device": "none", "reason": "fan"}, refused="unknown_device")
    await checked.ask("node.device_resume", {"node": node, "device": "none"}, refused="unknown_device")
    assert (await checked.ask("node.undrain", {"nodes": [node]}))["failed"]
    await checked.ask("config.reload", {})
    await checked.ask("stream.check", {})
    await checked.ask("stream.rebuild", {"lose_enqueued": True})


async def _reports(checked: Checked) -> None:
    made = await checked.ask("report.make", {"kind": "configurations"})
    await checked.until("report.part", {"report": made["report"], "part": 0}, lambda part: part["parts"] is not None)
    await checked.ask("schema.show", {})
    await checked.ask("schema.show", {"verb": "job.sumbit"}, refused="unknown_verb")


async def _letters(site, checked: Checked) -> None:
    async with Bus(site.up["nats"], "test", credentials=source_of(site.services)) as bus:
        await bus.client.jetstream().publish("rankd.v1.enqueue.alice", b'{"command":["true"],"queue":"nowhere"}')
    await checked.until("deadletter.list", {}, lambda page: page["letters"])
    assert (await checked.ask("deadletter.retry", {"ids": [1]}))["failed"]
    assert (await checked.ask("deadletter.drop", {"ids": [1]}))["done"]
    await checked.ask("deadletter.list", {"all": True})


async def test_endpoints_name_their_verb_and_the_digest_of_its_schemas(site):
    async with connected(site.up["nats"], site.services) as client:
        reply = await client.connection.request("$SRV.INFO.rankd", b"", timeout=PATIENCE_S)
        endpoints = [one for one in json.loads(reply.data)["endpoints"] if one["metadata"]]
        assert {one["metadata"]["verb"]: one["metadata"]["schema"] for one in endpoints} == {
            verb: digest(verb) for verb in VERBS
        }
        assert len(reply.data) < client.connection.max_payload / 4
    assert set(document().verbs) == set(VERBS)
