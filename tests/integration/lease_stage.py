"""A PostgreSQL database with rankd's tables, and services on it that take over from each other."""

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
from postgres_server import server
from watch import PATIENCE_S

from rankd.store.engine.postgres import PostgresDatabase
from rankd.store.schema.migration import upgrade


@functools.cache
def template():
    """A database with the tables, which tests copy."""
    name, directory = server().make(), Path(server().directory)

    async def make():
        async with PostgresDatabase(server().url(name), directory) as database:
            await upgrade(database)

    with ThreadPoolExecutor(1) as thread:  # the caller is in an event loop
        thread.submit(lambda: asyncio.run(make())).result()
    return name


def new_database():
    """The URL of a new database with the tables; and what drops it."""
    name = server().make(template())
    return server().url(name), functools.partial(server().drop, name)


def rows(url, query, *values):
    """What any SQL client sees."""
    with psycopg.connect(url) as connection:
        return connection.execute(query, values or None).fetchall()


def do(url, *statements):
    """Run statements as any SQL client can."""
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement)


async def until(condition):
    """Wait for what no message announces; returns what the condition gave."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await asyncio.to_thread(condition)):
            await asyncio.sleep(0.02)
    return found
