"""The database of ``rankd up``: a file, an embedded PostgreSQL server, or a server that runs already."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from rankd.core.errors import Refused, Unavailable
from rankd.core.model.server_url import is_postgres
from rankd.services.up.child import Child, Manner
from rankd.services.up.postgres import DIRECTORY, PostgresServer, check_user, url_in
from rankd.store.engine.reading import ReadError, open_for_reading
from rankd.store.engine.url import open_database, shown
from rankd.store.look.node_list import count_running
from rankd.store.schema.migration import upgrade

log = logging.getLogger("rankd.up")

DATABASE_FILE = "rankd.db"
KIND_FILE = "database"
"""Says which kind of database the directory used last. Without it: SQLite."""
SQLITE, POSTGRESQL = "sqlite", "postgresql"
SERVER = "postgresql"
"""The name of the embedded server's process."""
LOOK_EVERY_S = 0.05
STOP_PATIENCE_S = 120.0
"""A server writes everything to its files before it ends."""


def check_kind(directory: Path, given: str | None) -> str:
    """Which database to use: ``sqlite``, ``postgresql`` (embedded), or the URL of a server.

    A directory whose jobs are in PostgreSQL never starts with an empty file because somebody left out an option.

    Raises:
        Refused: ``usage``.
    """
    kind = given or SQLITE
    if kind not in (SQLITE, POSTGRESQL) and not is_postgres(kind):
        message = f"--db {kind}: give sqlite, postgresql, or postgresql://USER@HOST/NAME"
        raise Refused("usage", message, "db")
    try:
        before = (directory / KIND_FILE).read_text().strip()
    except OSError:  # none, or none of ours: what follows says so
        before = SQLITE
    if given is None and before != SQLITE:
        message = f"the jobs of {directory} are in {before}: give --db {before}"
        message += ", or --db sqlite to begin without them (`rankd db copy` takes them along)"
        raise Refused("usage", message, "db")
    if kind == POSTGRESQL:
        check_user()
    return kind


class Records:
    """The database. ``directory`` is that of ``rankd up``, absolute; ``kind`` is what :func:`check_kind` returns."""

    def __init__(self, directory: Path, kind: str, on_start: Callable[[], None]) -> None:
        self._directory = directory
        self._kind = kind
        self._server = PostgresServer(directory / DIRECTORY) if kind == POSTGRESQL else None
        self.database: Path | str = directory / DATABASE_FILE
        """What ``--db`` names."""
        if kind != SQLITE:
            self.database = kind if self._server is None else url_in(self._server.directory)
        self.shown = shown(self.database)
        """The same without a password."""
        self.child: Child | None = None
        """The process of the embedded server."""
        if self._server is not None:
            manner = Manner(signal.SIGINT, stop_patience_s=STOP_PATIENCE_S, stopping=signal.SIGINT)
            log_file = directory / "log" / f"{SERVER}.log"
            self.child = Child(SERVER, self._server.command(), log_file, on_start, manner)

    @property
    def variables(self) -> dict[str, str]:
        """What the environment of a service has to hold for a server's database."""
        if isinstance(self.database, Path):
            return {}
        return {"RANKD_DB": self.database, "RANKD_DIR": str(self._directory)}

    async def prepare(self) -> None:
        """Before the embedded server is started: make its data, and end what a killed ``rankd up`` has left."""
        if self._server is not None:
            await asyncio.to_thread(self._server.prepare)

    async def upgrade(self) -> None:
        """Bring the schema to this version. An embedded server is waited for; if it fails, its child says so."""
        if self.child is not None and self._server is not None:
            await self._make_database(url_in(self._server.directory, "postgres"))
            self.child.was_ready = True
        async with open_database(self.database, directory=self._directory) as database:
            await upgrade(database)
        self._note_kind()

    async def _make_database(self, url: str) -> None:
        from rankd.store.engine.postgres_start import has_answered, make_database  # noqa: PLC0415 - psycopg is optional

        while not await asyncio.to_thread(has_answered, url):  # noqa: ASYNC110 - it sends no notice
            await asyncio.sleep(LOOK_EVERY_S)
        await asyncio.to_thread(make_database, url, "rankd")

    def _note_kind(self) -> None:
        path = self._directory / KIND_FILE
        if self._kind == SQLITE:
            path.unlink(missing_ok=True)
            return
        temporary = path.with_suffix(".tmp")
        temporary.write_text((POSTGRESQL if self._server is not None else self.shown) + "\n")
        temporary.replace(path)

    async def stop(self) -> None:
        """Stop the embedded server; the services have to be stopped before."""
        if self.child is not None:
            await self.child.stop()

    def count_running(self, agents: list[str]) -> int:
        """How many jobs run on the nodes of these agents, according to the records; 0 if they can't be read."""
        try:
            with closing(open_for_reading(self.database)) as connection:
                return count_running(connection, agents)
        except (Unavailable, ReadError) as error:
            log.warning("can't count the running jobs: %s", error)
            return 0
