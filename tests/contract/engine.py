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

from sqlalchemy import Engine, create_engine

from rankd.store.engine.database import Database
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


ENGINES: list[ContractEngine] = [Sqlite()]
