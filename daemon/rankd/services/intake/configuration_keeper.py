"""The intake's part of a reload: only the intake reads and checks the directory, and records the configuration.

One transaction records the texts and adds their names to the catalog. Before it, nothing has changed. After it, the new
configuration is in force: the intake uses it at once, the other services use it between two rounds. A service that is
killed meanwhile finds it in the records.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from rankd.bus.endpoint import Reply, Verb
from rankd.bus.liveness import IDLE_S, Loops
from rankd.config.about_nodes import about_nodes, known_nodes
from rankd.config.change import Change
from rankd.config.checked import read_checked
from rankd.config.configuration import Configuration, read_files
from rankd.config.difference import differences
from rankd.config.other_writer import other_writers
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import ConfigurationError, Problem, RankdError, Refused, Unavailable
from rankd.services.runtime.clock import Clock
from rankd.services.runtime.life import is_set
from rankd.services.runtime.service_configuration import last_recorded, parsed
from rankd.store.engine.connection import Connection
from rankd.store.engine.database import Database
from rankd.store.engine.group_commit import GroupCommit
from rankd.store.record.all_nodes import all_nodes
from rankd.store.record.catalog import Catalog, sync_catalog
from rankd.store.record.configuration import Recorded, newest_configuration, newest_recorded
from rankd.store.record.new_configuration import record
from rankd.wire.codec import decode_strict
from rankd.wire.configuration import Reload, Reloaded
from rankd.wire.diag import ConfigurationDiag

log = logging.getLogger("rankd.configuration")

STARTED, RELOADED = "started", "reloaded"
RELOAD_BOUND_S = 300.0
"""A bound this long, because a check starts factors of other packages and lets each compute once."""
MOST_LINES = 500
"""The most changes in an answer, or problems in a refusal. The records and `rankd config check` have all of them."""

EMPTIED = "is empty, and was not when it was recorded; write it, or accept the empty file with `rankd reload`"


class Unusable(Unavailable):
    """This process can't use the configuration in force. It refuses requests instead of using an older one."""

    def __init__(self, number: int, error: ConfigurationError) -> None:
        message = f"this intake can't use configuration {number}, which another one has recorded: {_cut(error)}"
        super().__init__("configuration_unusable", message)
        self.number = number


Use = Callable[[Configuration, Catalog], Awaitable[None]]


class Found(NamedTuple):
    """A directory's texts and their configuration. ``refused``: why the present files are not used, if they are not."""

    files: dict[str, str]
    configuration: Configuration
    refused: ConfigurationError | None = None


class _Occasion(NamedTuple):
    """Why a configuration is recorded (:data:`STARTED`, :data:`RELOADED`), by whom, and when (UTC seconds)."""

    event: str
    actor: str
    at: float


class Taken(NamedTuple):
    """A configuration that is now in force: its number, and the ids of its names."""

    number: int
    catalog: Catalog


def read_directory(directory: Path, *, workers: bool = True) -> Found:
    """Read and check all files of a directory. The path is made absolute, because other services read the record.

    ``workers`` is passed to :func:`.read_checked`. At a start it is false, so that a hanging factor cannot prevent it.

    Raises:
        ConfigurationError: the files can't be used; it lists every problem.
    """
    texts, unreadable = read_files(directory)
    configuration = read_checked(_name(directory), texts, unreadable, workers=workers)
    writers = other_writers(directory)
    for problem in writers:
        log.warning("%s", problem)
    return Found(texts, msgspec.structs.replace(configuration, warnings=(*configuration.warnings, *writers)))


def _name(directory: Path) -> str:
    return str(directory.absolute())


async def find(database: Database, directory: Path) -> Found:
    """The configuration to start with: the files, or the last recorded one if the files can't be used now.

    A file that is empty now but was not when it was recorded can't be used, because somebody may be about to write it.
    Only a reload accepts it.

    Raises:
        ConfigurationError: the files can't be used, and nothing was recorded of this directory; it lists every problem.
    """
    before = await last_recorded(database)
    if before is not None and before.directory != _name(directory):
        before = None
    try:
        found = await asyncio.to_thread(read_directory, directory, workers=False)
        _check_emptied(found, before)
    except ConfigurationError as error:
        if before is None:
            raise
        message = "configuration %d stays in force, since the files can't be used: %s"
        log.error(message, before.number, error)  # noqa: TRY400 - the error tells what to do
        return Found(before.files, await asyncio.to_thread(parsed, before), error)
    return found


async def find_recorded(database: Database) -> Found | None:
    """The last recorded configuration, for an intake that takes over from another one, or has no files of its own.

    Raises:
        ConfigurationError: this version cannot use what another version of rankd recorded.
    """
    before = await last_recorded(database)
    return None if before is None else Found(before.files, await asyncio.to_thread(parsed, before))


def _check_emptied(found: Found, before: Recorded | None) -> None:
    held = {} if before is None else before.files
    emptied = [name for name, text in held.items() if text.strip() and not found.files.get(name, text).strip()]
    if emptied:
        raise ConfigurationError([Problem(file=name, path="", message=EMPTIED) for name in emptied])


async def start_with(database: Database, role: str, found: Found, now: float) -> Taken:
    """Put the configuration of the start into force. Records it unless it equals the last recorded one."""
    before = await database.read_in_thread(lambda c: newest_recorded(c.exec_driver_sql))
    new = await asyncio.to_thread(_compared, before, found, _Occasion(STARTED, own_name(), now))
    return await database.write(lambda c: _bring_in(c, before, new, found.configuration, now), role=role)


def _compared(before: Recorded | None, found: Found, occasion: _Occasion) -> Recorded | None:
    """The configuration to record; None if it equals the last recorded one."""
    directory = found.configuration.directory
    if before is not None and (before.files, before.directory) == (found.files, directory):
        return None
    changes: list[Change] = [] if before is None else differences(before.files, found.files)
    return Recorded(
        number=0,
        at=occasion.at,
        actor=occasion.actor,
        event=occasion.event,
        directory=directory,
        changes=changes,
        files=found.files,
    )


def _bring_in(
    connection: Connection, before: Recorded | None, new: Recorded | None, configuration: Configuration, now: float
) -> Taken:
    number = record(connection, new) if new is not None else 0 if before is None else before.number
    return Taken(number, sync_catalog(connection, configuration, now))


class ConfigurationKeeper:
    """Reads ``directory`` again on request; ``use`` is called with the configuration that is now in force."""

    def __init__(self, directory: Path, database: Database, group: GroupCommit, use: Use, clock: Clock) -> None:
        self.number: int | None = None
        self.unusable: Unusable | None = None
        """Why the configuration in force is not used, if it can't be."""
        self._directory = directory
        self._database = database
        self._group = group
        self._use = use
        self._clock = clock
        self._one_by_one = asyncio.Lock()
        self._refused = 0
        self._message: str | None = None

    def verb(self) -> Verb:
        """``config.reload``."""

        async def reload(asker: Submitter, payload: bytes) -> Reply:
            decode_strict(payload, Reload)
            try:
                return await self.reload(asker.user)
            except ConfigurationError as error:
                raise Refused(error.code, _cut(error), "config") from None

        return Verb("config.reload", reload)

    async def on_hangup(self, hangup: asyncio.Event, loops: Loops) -> None:
        """Reload on SIGHUP, with the user of this process as the actor."""
        loop = loops.add("reloads", RELOAD_BOUND_S)
        while True:
            loop.beat()
            if not await is_set(hangup, IDLE_S):
                continue
            hangup.clear()
            try:
                await self.reload(own_name())
            except RankdError as error:
                log.error("SIGHUP: nothing was changed: %s", error)  # noqa: TRY400 - the error tells what to do

    async def reload(self, actor: str) -> Reloaded:
        """Read, check and record the directory, and use its configuration.

        Raises:
            ConfigurationError: it lists every problem; the former configuration stays in force.
        """
        async with self._one_by_one:
            try:
                found = await asyncio.to_thread(read_directory, self._directory)
            except ConfigurationError as error:
                self.note(error)
                log.warning("a reload by %s was refused, problems: %d", actor, len(error.problems))
                raise
            return await self._take(found, actor)

    async def _take(self, found: Found, actor: str) -> Reloaded:
        before = await self._database.read_in_thread(lambda c: newest_recorded(c.exec_driver_sql))
        new = await asyncio.to_thread(_compared, before, found, _Occasion(RELOADED, actor, self._clock()))
        warnings = await self._warnings(found.configuration)
        self._message = None
        if new is None and before is not None:
            log.info("a reload by %s: the files are the same as the configuration in force", actor)
            return Reloaded(number=before.number, is_new=False, warnings=warnings)
        bring_in = partial(_bring_in, before=before, new=new, configuration=found.configuration, now=self._clock())
        taken = await self._group.do(bring_in)
        self.number = taken.number
        await self._use(found.configuration, taken.catalog)
        lines = [str(change) for change in new.changes] if new is not None else []
        log.info("configuration %d by %s: %d changes", taken.number, actor, len(lines))
        return Reloaded(
            number=taken.number, is_new=True, n_changes=len(lines), changes=lines[:MOST_LINES], warnings=warnings
        )

    async def _warnings(self, configuration: Configuration) -> list[str]:
        """The warnings of the files, and those about the nodes that have registered."""
        nodes = await self._database.read_in_thread(lambda c: all_nodes(c.connection))
        of_nodes = await asyncio.to_thread(about_nodes, configuration, nodes or known_nodes(configuration))
        return [str(problem) for problem in (*configuration.warnings, *of_nodes)][:MOST_LINES]

    async def find_newer(self) -> Found | None:
        """The configuration in force, if it is another one than this process uses.

        Raises:
            Unusable: this process can't use it. That is logged and counted once.
        """
        number = await self._database.read(lambda c: newest_configuration(c.exec_driver_sql))
        if self.unusable is not None and self.unusable.number == number:
            raise self.unusable
        try:
            found = None if number in (None, self.number) else await find_recorded(self._database)
        except ConfigurationError as error:
            self.note(error)
            self.unusable = Unusable(number or 0, error)
            log.error("requests are refused: %s", self.unusable)  # noqa: TRY400 - the error tells what to do
            raise self.unusable from None
        self.unusable, self.number = None, number
        return found

    def note(self, error: ConfigurationError) -> None:
        """Note that the files were refused."""
        self._refused += 1
        self._message = _cut(error)

    def diag(self) -> ConfigurationDiag:
        """Which configuration is in force, and why the files were refused."""
        return ConfigurationDiag(number=self.number, failed=self._refused, message=self._message)


def own_name() -> str:
    """The name of the user who runs this process."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # containers run with user ids without a name
        return str(os.getuid())


def _cut(error: ConfigurationError) -> str:
    """The problems, a line each; at most :data:`MOST_LINES` of them."""
    lines = [str(problem) for problem in error.problems]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} more: `rankd config check` shows all"]
    return "\n".join(lines)
