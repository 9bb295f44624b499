"""PgBouncer in transaction mode before PostgreSQL: the transactions of one connection are in several sessions."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest
from builder import NOW, accepted, configuration
from postgres_server import _user, server
from properties.test_view import Cluster
from watch import PATIENCE_S

from rankd.core.model.setting import PrioritySettings
from rankd.store.engine import postgres_prepared
from rankd.store.engine.postgres_connection import READING, driver_of, engine_of
from rankd.store.engine.url import open_database
from rankd.store.schema.migration import upgrade

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
CONFIGURATION = """\
[databases]
* = host={server} user=rankd
[pgbouncer]
listen_addr =
listen_port = 6543
unix_socket_dir = {directory}
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
"""


@pytest.fixture
def pooled():
    """A database behind a PgBouncer that has three sessions for all connections, and gives them out in turn."""
    if PROGRAM is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("pgbouncer is not installed")
    directory = Path(tempfile.mkdtemp(prefix="rankd-bouncer-", dir=server().directory))  # where its user may read
    (directory / "pgbouncer.ini").write_text(CONFIGURATION.format(server=server().directory, directory=directory))
    directory.chmod(0o777)
    process = subprocess.Popen(
        [PROGRAM, directory / "pgbouncer.ini"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, **_user()
    )
    said = []
    for line in process.stderr:
        said.append(line)
        if "process up" in line:
            break
    else:
        raise AssertionError("pgbouncer ended: " + "".join(said))
    name = server().make()
    yield f"postgresql://rankd@/{name}?host={directory}&port=6543"
    process.terminate()
    process.communicate()
    server().drop(name)


async def test_jobs_are_ranked_through_a_pooler_in_transaction_mode(pooled, tmp_path):
    weights = {"age": 1000.0, "fairshare": 7.0}
    async with (
        open_database(pooled, directory=tmp_path / "a") as database,
        open_database(pooled, directory=tmp_path / "b") as other,
    ):
        await upgrade(database)
        cluster = Cluster(database, configuration(priority=PrioritySettings(weights=weights)))
        await cluster.set_up([], 1)
        async with asyncio.timeout(PATIENCE_S):
            for step in range(5):
                await cluster.submit([(accepted(), NOW - 100 + step)])
                await cluster.rank(NOW + step)
                reads = [other.read(sessions) for _ in range(4)]
                await asyncio.gather(*reads, cluster.submit([(accepted(), NOW - 50)]), *map(other.look, [jobs] * 4))
                await cluster.take_in(NOW + step + 0.5)
        assert [await other.read(jobs) for _ in range(20)] == [10] * 20, "often enough for it to be prepared"
        assert {len(await other.read(sessions)) for _ in range(9)} == {1}, "a transaction is in one session"
        assert len({session for _ in range(9) for session in await other.read(sessions)}) > 1, "and the next in another"
        left = [await other.read(prepared) for _ in range(9)] + [await database.write(prepared) for _ in range(9)]
        assert set(left) == {0}, "a pooler gives the session to another client"
    with psycopg.connect(pooled, prepare_threshold=None) as connection:
        assert connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)


async def test_a_pooler_is_recognised_and_its_server_is_not_taken_for_one(pooled):
    name = server().make()
    with psycopg.connect(pooled) as behind, psycopg.connect(server().url(name)) as direct:
        assert not postgres_prepared.is_direct(behind)
        assert postgres_prepared.is_direct(direct)
    for url, threshold, session in (
        (pooled, None, None),
        (server().url(name), postgres_prepared.THRESHOLD, READING.settings),
    ):
        engine = engine_of(url, 1, READING)
        with engine.connect() as connection:
            driver = driver_of(connection)
            assert (driver.prepare_threshold, driver.session) == (threshold, session)
        engine.dispose()
    server().drop(name)


def sessions(connection):
    """The server's processes that carry out three statements of one transaction."""
    return {connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one() for _ in range(3)}


def prepared(connection):
    return connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one()


def jobs(connection):
    return connection.exec_driver_sql("SELECT count(*) FROM job_priority").scalar_one()
