"""Two instances of each service on one PostgreSQL database, as real processes: who takes over, and what is written."""

import asyncio
import os
import shutil
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from integration.lease_stage import do, new_database, rows, until
from integration.stage import connected, process, ready, write_config
from watch import PATIENCE_S

from rankd.bus.connection import Bus
from rankd.core.role.lease import TTL_S

AUDIT = """CREATE TABLE audit (who text, what text);
CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO audit VALUES (current_setting('application_name'), TG_TABLE_NAME); RETURN NULL; END $$;
DO $$ DECLARE t record; BEGIN
    FOR t IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
             AND relname <> 'audit' LOOP
        EXECUTE format('CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON %I FOR EACH ROW'
                       ' EXECUTE FUNCTION note_write()', t.relname);
    END LOOP;
END $$"""
EXPANSION = (
    "ALTER TABLE jobs ADD COLUMN of_a_later_version text",
    "ALTER TABLE allocations ADD COLUMN of_a_later_version bigint NOT NULL DEFAULT 0",
    "ALTER TABLE roles ADD COLUMN of_a_later_version double precision",
    "CREATE TABLE of_a_later_version (id bigint)",
)
"""What an upgrade to a later version may do while this version still runs."""
AGAIN = 503
"""The status of a request that may be sent again."""
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@pytest.fixture
def url():
    made, drop = new_database()
    yield made
    drop()


class Two:
    """Two processes of a service: the first one holds the role."""

    def __init__(self, url, name, first, second):
        self.url, self.name, self.first, self.second = url, name, first, second

    def role(self):
        return rows(self.url, "SELECT epoch, holder FROM roles WHERE name = %s", self.name)[0]

    def is_second(self):
        epoch, holder = self.role()
        return epoch == 2 and holder.endswith(f":{self.second.pid}")

    def is_complete(self):
        """Whether the second one has done its first work."""
        [(took,)] = rows(self.url, "SELECT takeover_s FROM service WHERE name = %s", self.name)
        return self.is_second() and took is not None


def expand(url):
    """Whether it could be done: a deadlock with a service may end this side, too."""
    try:
        do(url, *EXPANSION)
    except psycopg.errors.DeadlockDetected:
        return False
    return True


def named(url, who):
    return f"{url}&application_name={who}"


@asynccontextmanager
async def two(broker, url, tmp_path, name, config=None):
    config = config or write_config(tmp_path / "config")
    here = {"nats": broker.url, "config": config}
    async with (
        asyncio.timeout(2 * PATIENCE_S),
        Bus(broker.url, "probe") as bus,
        process(name, db=named(url, "first"), **here) as first,
    ):
        await ready(bus, name)
        own = {**here, "config": tmp_path / "missing"} if name == "intake" else here
        async with process(name, db=named(url, "second"), **own) as second:
            waits = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'second' AND query LIKE '%FROM roles%'"
            await until(lambda: rows(url, waits))
            yield Two(url, name, first, second)


async def test_a_standby_of_the_prioritizer_makes_generations_after_a_kill(broker, url, tmp_path):
    async with two(broker, url, tmp_path, "prioritizer") as pair:
        pair.first.kill()
        await until(pair.is_complete)
        [(before,)] = rows(url, "SELECT max(number) FROM generations")
        await until(lambda: rows(url, "SELECT max(number) FROM generations")[0][0] > before)


async def test_a_standby_of_the_intake_answers_at_once_after_a_stop_and_needs_no_files(broker, url, tmp_path):
    async with two(broker, url, tmp_path, "intake") as pair:
        [(resigned,)] = rows(url, "SELECT count(resigned_at) FROM roles")
        assert resigned == 0
        pair.first.terminate()
        assert await pair.first.wait() == 0
        await until(pair.is_complete)
        async with connected(broker.url) as client:
            job = await client.submit()
            shown = (await client.do("diag.show", {})).body
            assert "roles" in shown, shown
            [role] = shown["roles"]
        epoch, holder = pair.role()
        assert (role["epoch"], role["holder"]) == (epoch, holder)
        assert role["takeover_s"] >= 0
        asked = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "rankd", "diag", "--nats", broker.url, stdout=asyncio.subprocess.PIPE
        )
        printed = (await asked.communicate())[0].decode()
        assert f"{holder} since" in printed
        assert f"epoch {epoch}, the last take-over took {role['takeover_s']:.1f} s" in printed
        assert rows(url, "SELECT id FROM jobs") == [(job,)]
        assert rows(url, "SELECT count(*) FROM configurations") == [(1,)], "the recorded one stays in force"


@pytest.mark.parametrize("name", ["prioritizer", "scheduler"])
async def test_a_holder_that_was_paused_past_its_lease_writes_nothing_afterwards(broker, url, tmp_path, name):
    do(url, AUDIT)
    async with two(broker, url, tmp_path, name) as pair:
        pair.first.send_signal(signal.SIGSTOP)
        await until(pair.is_complete)
        wrote = "SELECT count(*) FROM audit WHERE who = 'first'"
        [(before,)] = rows(url, wrote)
        assert before > 0
        pair.first.send_signal(signal.SIGCONT)
        _, said = await pair.first.communicate()
        assert pair.first.returncode != 0
        assert f"another instance is the {name} now".encode() in said
        assert rows(url, wrote) == [(before,)]
        assert pair.is_second()


async def test_a_holder_that_was_paused_past_its_lease_with_no_standby_ends_as_well(broker, url, tmp_path):
    here = {"nats": broker.url, "config": write_config(tmp_path / "config"), "db": url}
    async with (
        asyncio.timeout(PATIENCE_S),
        Bus(broker.url, "probe") as bus,
        process("scheduler", **here) as paused,
    ):
        await ready(bus, "scheduler")
        paused.send_signal(signal.SIGSTOP)
        over = f"SELECT 1 FROM roles WHERE extract(epoch FROM clock_timestamp()) - alive_at > {TTL_S + 1}"
        await until(lambda: rows(url, over))
        paused.send_signal(signal.SIGCONT)
        _, said = await paused.communicate()
    assert paused.returncode != 0
    assert b"another instance is the scheduler now" in said


async def test_an_upgrade_or_an_expansion_beside_services_that_write_neither_fails_nor_ends_one(broker, url, tmp_path):
    here = {"nats": broker.url, "config": write_config(tmp_path / "config"), "db": url}
    async with (
        asyncio.timeout(2 * PATIENCE_S),
        Bus(broker.url, "probe") as bus,
        connected(broker.url) as client,
        process("intake", **here) as intake,
        process("prioritizer", **here) as prioritizer,
        process("scheduler", **here) as scheduler,
    ):
        services = {"intake": intake, "prioritizer": prioritizer, "scheduler": scheduler}
        for name in services:
            await ready(bus, name)
        ended = asyncio.Event()

        async def write():
            while not ended.is_set():  # a deadlock with the changes of tables may end a transaction
                reply = await client.do("job.submit", {"command": ["true"]})
                assert reply.status in (None, AGAIN), reply

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            for _ in range(2):
                do(url, "COMMENT ON VIEW job_priority IS 'another one'")  # so that views are replaced
                async with process("db", "upgrade", db=url) as upgrade:
                    _, said = await upgrade.communicate()
                    assert upgrade.returncode == 0, said
            await until(lambda: expand(url))
            [(before,)] = rows(url, "SELECT count(*) FROM allocations")
            await client.ask("rankd.v1.node.n1.register", {"resources": {"vcore": 1000}, "agent": "n1"})
            await until(lambda: rows(url, "SELECT count(*) FROM allocations")[0][0] > before)
            ended.set()
        assert {name: child.returncode for name, child in services.items()} == dict.fromkeys(services)


@pytest.mark.skipif(FAKETIME is None and not os.environ.get("CI"), reason="no libfaketime here (Debian: libfaketime)")
@pytest.mark.parametrize("step", ["+3600", "-3600"])
async def test_a_step_of_a_holders_clock_costs_it_nothing(broker, url, tmp_path, step):
    assert FAKETIME is not None
    clock = tmp_path / "clock"
    clock.write_text("+0")
    faked = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    here = {"nats": broker.url, "config": write_config(tmp_path / "config"), "db": url}
    async with asyncio.timeout(2 * PATIENCE_S), Bus(broker.url, "probe") as bus:
        os.environ.update(faked)
        try:
            child = process("prioritizer", **here)
            holder = await child.__aenter__()
        finally:
            for name in faked:
                del os.environ[name]
        try:
            await ready(bus, "prioritizer")
            [(before,)] = rows(url, "SELECT max(number) FROM generations")
            clock.with_name("new").write_text(step)
            shutil.move(clock.with_name("new"), clock)
            alive = rows(url, "SELECT alive_at FROM roles")
            await until(lambda: rows(url, "SELECT max(number) FROM generations")[0][0] > before + 3)
            await until(lambda: rows(url, "SELECT alive_at FROM roles") != alive)
            assert holder.returncode is None
            assert rows(url, "SELECT epoch FROM roles") == [(1,)]
        finally:
            await child.__aexit__(None, None, None)
