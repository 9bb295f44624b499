"""Generations are published and old ones deleted while readers are in long transactions and users have own views."""

import asyncio

import psycopg
import pytest
from builder import NOW, accepted, configuration
from postgres_server import server
from properties.test_view import Cluster
from watch import PATIENCE_S

from rankd.core.model.setting import PrioritySettings
from rankd.store.engine.url import open_database
from rankd.store.schema.migration import upgrade

TABLES = ("generation_numbers", "ranking_chunks", "rank_chunks", "ranking_leaves", "generation_associations")
OWN_VIEW = "CREATE VIEW mine AS SELECT p.id, p.priority, r.rank FROM job_priority p JOIN ranking r ON r.job_id = p.id"


@pytest.fixture
def url():
    """A database in which nobody waits for a lock: a statement that would have to wait fails."""
    name = server().make()
    server().do(f"ALTER DATABASE {name} SET lock_timeout = '1s'")
    yield server().url(name)
    server().drop(name)


async def test_no_reader_and_no_view_of_a_user_holds_up_a_generation_or_its_deletion(url, tmp_path):
    async with open_database(url, directory=tmp_path) as database:
        await upgrade(database)
        cluster = Cluster(database, configuration(priority=PrioritySettings(weights={"age": 1000.0, "fairshare": 7.0})))
        await cluster.set_up([], 1)
        await cluster.submit([(accepted(), NOW - place) for place in range(20)])
        await cluster.rank(NOW)
        with psycopg.connect(url, autocommit=True) as user:
            user.execute(OWN_VIEW)
        with psycopg.connect(url) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            before = reader.execute("SELECT * FROM mine ORDER BY rank").fetchall()
            assert len(before) == 20
            async with asyncio.timeout(PATIENCE_S):
                await cluster.submit([(accepted(), NOW - 100)])
                await cluster.rank(NOW + 10)
                await cluster.take_in(NOW + 15)
                cluster.start_prioritizer()  # as after a restart: it would make the views again if they differed
                await cluster.rank(NOW + 20)
            assert reader.execute("SELECT * FROM mine ORDER BY rank").fetchall() == before
            with psycopg.connect(url) as other:
                assert other.execute("SELECT count(*) FROM mine").fetchone() == (21,)
                for table in TABLES:
                    kept = other.execute(f"SELECT count(DISTINCT generation) FROM {table}").fetchone()
                    assert kept == (1,), f"{table}: the older generations were not deleted"
        await cluster.rank(NOW + 30)
