"""The engines that the contract suite runs against. A second engine is one class here and one entry in ``ENGINES``."""

import asyncio
import atexit
import functools
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from postgres_server import server
from sqlalchemy import Engine, create_engine

from rankd.store.engine.database import Database
from rankd.store.engine.postgres import writing_engine
from rankd.store.engine.url import open_database

Fill = Callable[[Database], Awaitable[None]]


class ContractEngine(Protocol):
    """What the suite needs of an engine."""

    name: str

    def open(self, directory: Path) -> Database:
        """The store of this directory. It has no schema yet."""

    def open_copy(self, fill: Fill, directory: Path) -> Database:
        """A store with what ``fill`` has written into an empty one. ``fill`` runs once for all tests."""

    def connect(self, directory: Path) -> Engine:
        """An SQLAlchemy engine on the store of this directory, for migrations and reflection."""


class Sqlite:
    """One file per store; a filled one is copied."""

    name = "sqlite"

    def open(self, directory: Path) -> Database:
        return open_database(directory / "rankd.db", durable=False)

    def open_copy(self, fill: Fill, directory: Path) -> Database:
        shutil.copyfile(_template(fill), directory / "rankd.db")
        return self.open(directory)

    def connect(self, directory: Path) -> Engine:
        return create_engine(f"sqlite:///{directory / 'rankd.db'}")


class Postgres:
    """One database per store in a server of this process; a filled one is a template."""

    name = "postgresql"

    def __init__(self):
        self._made = {}

    def open(self, directory: Path) -> Database:
        return open_database(self._url(directory, "template0"), durable=False, directory=directory)

    def open_copy(self, fill: Fill, directory: Path) -> Database:
        return open_database(self._url(directory, _postgres_template(fill)), durable=False, directory=directory)

    def connect(self, directory: Path) -> Engine:
        return writing_engine(self._url(directory, "template0"))

    def _url(self, directory: Path, template: str) -> str:
        """The database of a directory. Those of earlier tests are dropped."""
        if directory not in self._made:
            for name in self._made.values():
                server().drop(name)
            self._made = {directory: server().make(template)}
        return server().url(self._made[directory])


@functools.cache
def _postgres_template(fill: Fill) -> str:
    name = server().make()

    async def make() -> None:
        directory = Path(tempfile.mkdtemp(prefix="rankd-contract-"))
        atexit.register(shutil.rmtree, directory)
        async with open_database(server().url(name), durable=False, directory=directory) as database:
            await fill(database)

    with ThreadPoolExecutor(1) as thread:  # the caller is in an event loop
        thread.submit(lambda: asyncio.run(make())).result()
    return name


@functools.cache
def _template(fill: Fill) -> Path:
    directory = Path(tempfile.mkdtemp(prefix="rankd-contract-"))
    atexit.register(shutil.rmtree, directory)

    async def make() -> None:
        async with Sqlite().open(directory) as database:
            await fill(database)

    with ThreadPoolExecutor(1) as thread:  # the caller is in an event loop
        thread.submit(lambda: asyncio.run(make())).result()
    return directory / "rankd.db"


ENGINES: list[ContractEngine] = [Sqlite(), Postgres()]
