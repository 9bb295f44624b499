"""The rankd that a program or a command uses: the broker to ask or the database to read, and why this one.

This module reads the environment, directories and the user's file; :mod:`rankd.client.place_rule` decides between
them. ``rankd up`` writes ``DIR/up.json``. The database of a directory is found without a running ``up`` too, so that
commands can read it while nothing runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_ISDIR, S_ISLNK
from typing import TYPE_CHECKING, NamedTuple

from rankd.bus.tls_files import TlsFiles
from rankd.client.place_rule import BrokerFiles, Chosen, Found, Named, PassedOver, choose
from rankd.client.up_file import DATABASE_FILE, UP_FILES, read_own, read_up
from rankd.core.errors import Refused, Unavailable
from rankd.core.model.server_url import is_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DEFAULT_DIRECTORY = ".rankd"
TLS_NAMES = UP_FILES[1:]
"""The names, in capitals behind ``RANKD_``, of the variables for encrypted connections."""
USER_FILE = "rankd/client.toml"

NOTHING = (
    "found no rankd: there is no directory .rankd of yours here or in a parent directory, and no"
    " ~/.config/rankd/client.toml; none is named either (--dir, --nats, --db, $RANKD_DIR, $RANKD_NATS, $RANKD_DB):"
    " start `rankd up`, or give --nats URL. If you were given a token, use `rankd login`; if a directory, --dir DIR"
)


class Place(NamedTuple):
    """The chosen rankd. ``by_bus``: the broker was named, so looking commands ask it and read no database.

    ``directory`` is that of ``rankd up``, or None if no directory was named or found. ``is_both``: broker and database
    were named together, and must belong to the same site. ``reason`` and ``passed_over`` are for the user.
    ``creds``: the file of credentials for the broker; ``tls``: files for encrypted connections. ``login``: the socket
    that gives credentials, of a ``rankd up`` of another user. ``socket``: one that carries requests; None where the
    broker or credentials were named. ``acts_as`` is the user who was named.
    """

    directory: Path | None
    nats: str | None
    database: Path | None
    by_bus: bool = False
    is_both: bool = False
    reason: str = ""
    passed_over: tuple[PassedOver, ...] = ()
    creds: Path | None = None
    tls: TlsFiles = TlsFiles()
    login: Path | None = None
    socket: Path | None = None
    acts_as: str | None = None
    server: str | None = None
    """The URL of a PostgreSQL server that has the records, in place of ``database``."""

    @property
    def uses_bus(self) -> bool:
        """Whether looking commands ask the broker: it was named, or there is no database that can be read here."""
        if self.nats is None:
            return False
        return self.by_bus or self.database is None or not os.access(self.database, os.R_OK)

    @property
    def stopped(self) -> str | None:
        """What to know of the records of a ``rankd up`` that does not run; None if it runs, or another source is read.

        Only the directory says that: a database that was named may be another site's copy.
        """
        if self.directory is None or self.nats is not None or self.by_bus or self.database is None:
            return None
        if not self.database.is_file():
            return None
        flag = "" if str(self.directory) == DEFAULT_DIRECTORY else f" --dir {self.directory}"
        return f"nothing runs in {self.directory}; this is what its database says, and `rankd up{flag}` starts it again"

    def need_nats(self) -> str:
        """The broker's URL.

        Raises:
            Unavailable: ``not_running``.
        """
        if self.nats is not None:
            return self.nats
        if self.directory is not None:
            message = f"nothing runs in {self.directory}: start `rankd up`, or give --nats URL"
            if (inside := self.directory / DEFAULT_DIRECTORY).is_dir():
                message += f"; or is {inside} meant?"
        elif self.database is not None:
            message = f"nothing says which broker belongs to the database {self.database}: give --nats URL instead"
        else:
            message = self._nothing()
        raise Unavailable("not_running", message)

    def need_database(self) -> Path | str:
        """The database file, or the URL of the server that has the records.

        Raises:
            Unavailable: ``no_database``: no database is known, or the file does not exist.
        """
        if self.server is not None:
            return self.server
        if self.database is None:
            if self.nats is None and self.directory is None:
                raise Unavailable("no_database", self._nothing())
            if self.directory is None or self.by_bus:
                message = f"this command reads the database itself, and {self.reason} is a broker: give --db FILE"
                raise Refused("usage", message, "db")
            message = f"no database in {self.directory}: start `rankd up`, or give --db FILE or --nats URL"
            raise Unavailable("no_database", message)
        if self.nats is None and self.database.is_file() and not os.access(self.database, os.R_OK):
            message = f"nothing answers in {self.directory or self.database}, and its database is for its owner only"
            raise Unavailable("not_running", message)
        if not self.database.is_file():
            message = f"no database at {self.database}: give another --db FILE, or make it with `rankd db upgrade`"
            raise Unavailable("no_database", message)
        return self.database

    def _nothing(self) -> str:
        return "; ".join([NOTHING, *(f"passed over {one.text}" for one in self.passed_over)])

    def explained(self, *, acts: bool = False) -> str:
        """One line: what the command uses, and why. ``acts``: the command always asks over the bus."""
        from rankd.bus.address import without_secret

        if self.nats and (acts or self.uses_bus):
            return f"asks the broker {without_secret(self.nats)}: {self.reason}"
        if self.database is not None:
            return f"reads the database {self.database}: {self.reason}"
        return self.reason


class Given(NamedTuple):
    """What a program's arguments or a command's options name; None or an empty record: nothing.

    ``user``: the user who asks.
    """

    named: Named = Named()
    creds: str | None = None
    user: str | None = None
    tls: TlsFiles = TlsFiles()


def locate(given: Given, environment: Mapping[str, str] = os.environ) -> Place:
    """The rankd that is used. The rule is the same for every command and program.

    Raises:
        Refused: ``usage``, ``bad_request``: the named broker, directory or database can't be used.
    """
    known = Named(*(environment.get(f"RANKD_{name.upper()}") or None for name in Named._fields))
    chosen = choose(given.named, known, _directories(), _user_file, os.geteuid())
    place = _place_of(chosen)
    if creds := given.creds or environment.get("RANKD_CREDS") or chosen.files.creds:
        place = place._replace(creds=Path(creds).expanduser(), socket=None)
    return place._replace(
        tls=_tls(place, given.tls, environment), acts_as=given.user or environment.get("RANKD_USER") or None
    )


def _tls(place: Place, given: TlsFiles, environment: Mapping[str, str]) -> TlsFiles:
    """What is given, else what ``up.json`` says of its broker, else the environment, else the user's own file."""
    if not (place.nats is not None and not place.by_bus):
        paths = (environment.get(f"RANKD_{name.upper()}") for name in TLS_NAMES)
        known = TlsFiles(*(Path(path).expanduser() if path else None for path in paths))
        given = _first(given, known)
    return _first(given, place.tls)


def _first(files: TlsFiles, others: TlsFiles) -> TlsFiles:
    return TlsFiles(*(own or other for own, other in zip(files, others, strict=True)))


def _place_of(chosen: Chosen) -> Place:
    """The choice, completed with broker and database of the ``rankd up`` that runs in the directory.

    Raises:
        Refused: ``usage``: the directory and the database that were named are of different sites.
    """
    named = chosen.named
    directory = Path(named.dir) if named.dir else None
    server = named.db if named.db and is_postgres(named.db) else None
    database = sqlite_file(named.db) if named.db and server is None else None
    up: dict[str, str] = {}
    if directory is not None:
        up = read_up(directory, is_named=not chosen.is_found)
    elif database is not None and not named.nats:
        up = read_up(database.parent, is_named=False)
    if database is not None and up and not _is_same_file(up.get("db"), database):
        if directory is not None:
            message = f"the database {database} is not the one of the `rankd up` in {directory}; name one of them"
            raise Refused("usage", message, "db")
        up = {}
    if server is None:
        server = up["db"] if is_postgres(up.get("db")) and not named.nats and database is None else None
    if server is None:
        database = database or _database_of(directory, up)
    return Place(
        directory=directory,
        nats=named.nats or up.get("nats"),
        database=database,
        server=server,
        by_bus=named.nats is not None,
        is_both=named.nats is not None and database is not None and up.get("nats") != named.nats,
        reason=chosen.reason,
        passed_over=chosen.passed_over,
        login=Path(up["login"]) if "login" in up and "creds" not in up else None,
        socket=Path(up["login"]) if "login" in up and not named.nats else None,
        creds=Path(up["creds"]) if up.get("creds") and up.get("nats") == (named.nats or up["nats"]) else None,
        tls=_named_files(chosen.files if named.nats else BrokerFiles(**{name: up.get(name) for name in UP_FILES})),
    )


def _named_files(files: BrokerFiles) -> TlsFiles:
    paths = (files.ca, files.tls_cert, files.tls_key)
    return TlsFiles(*(None if path is None else Path(path).expanduser() for path in paths))


def _database_of(directory: Path | None, up: dict[str, str]) -> Path | None:
    if "db" in up:
        return sqlite_file(up["db"])
    if directory is None:
        return None
    path = directory / DATABASE_FILE
    return path if os.path.isfile(path) else None  # noqa: PTH113 - Path's own raises where a directory is closed


def _is_same_file(one: str | None, other: Path) -> bool:
    try:
        return one is not None and other.samefile(one)
    except OSError:
        return False


def sqlite_file(text: str) -> Path:
    """The file behind ``--db``: a path or ``sqlite:///FILE`` (without SQLAlchemy, which is slow to import).

    Raises:
        Refused: ``usage``: another kind of database.
    """
    if text.startswith("sqlite:///"):
        text = text.removeprefix("sqlite:///")
    elif "://" in text:
        message = f"'{text}' is not an SQLite file: give a path or sqlite:///FILE, or postgresql://USER@HOST/NAME"
        raise Refused("usage", message, "db")
    return Path(text)


def _directories() -> Iterator[Found]:
    """Every ``.rankd``, from the current directory up to the root."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed, or we may not read one of its parents
        return
    for directory in (here, *here.parents):
        path = directory / DEFAULT_DIRECTORY
        try:
            status = path.lstat()
        except OSError:
            continue
        if S_ISDIR(status.st_mode) or S_ISLNK(status.st_mode):
            yield Found(str(path), status.st_uid, status.st_mode, S_ISLNK(status.st_mode))


def user_file_path() -> Path:
    """Where the user's own file is, whether there is one or not."""
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    return (Path(base) if base.startswith("/") else Path("~/.config").expanduser()) / USER_FILE


def named_by_user() -> str | None:
    """The broker that the user's own file names; None without such a file.

    Raises:
        Refused: ``usage``: the file can't be read, or names no broker.
    """
    found = _user_file()
    return None if found is None else found[1]


def _user_file() -> tuple[Found, str, BrokerFiles] | None:
    """The user's own file, the broker that it names, and the files for it.

    Raises:
        Refused: ``usage``: it can't be read, or names no broker.
    """
    path = user_file_path()
    try:
        status = path.stat()  # a user's own directory: links there are the user's own
    except OSError:
        return None
    import tomllib

    try:
        given = tomllib.loads(read_own(path).decode())
    except (OSError, ValueError) as error:
        raise Refused("usage", f"{path} can't be read: {error}", "nats") from None
    nats = given.pop("nats", None)
    files = {name: given.pop(name) for name in BrokerFiles._fields if name in given}
    if given or not all(isinstance(value, str) and value for value in (nats, *files.values())):
        message = f'{path}: write nats = "nats://HOST:4222", and creds = "FILE" if the broker wants credentials;'
        message += " also known here: ca, tls_cert, tls_key, each the name of a file"
        raise Refused("usage", message, "nats")
    return Found(str(path), status.st_uid, status.st_mode), nats, BrokerFiles(**files)
