"""Which rankd a program asks, as whom, and on which way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, TypedDict

from rankd.bus.tls_files import TlsFiles
from rankd.client.asker import Asker, asker_at
from rankd.client.channel import own_channel
from rankd.client.place import Given, Place, locate
from rankd.client.place_rule import Named
from rankd.client.step import Effort

RETRY_FOR_S = 30.0

PathLike = str | Path


class Options(TypedDict, total=False):
    """Arguments of a client. Each is by default what commands use, too.

    ``directory``: of ``rankd up``. ``creds``: a file of credentials. ``user``: who asks. ``admin``: ask with an
    administrator's rights. ``ca``, ``tls_cert``, ``tls_key``: files for encrypted connections. ``retry_for_s``: seconds
    for which requests are repeated while rankd does not answer.
    """

    directory: PathLike
    creds: PathLike
    user: str
    admin: bool
    ca: PathLike
    tls_cert: PathLike
    tls_key: PathLike
    retry_for_s: float


class Way(NamedTuple):
    """The way to ask: at the login socket, where the kernel says who asks, or over the broker (``socket`` None)."""

    place: Place
    who: Asker
    socket: Path | None


class Target:
    """Finds out when it is first needed, since that may read files and ask at a socket."""

    def __init__(self, nats: str | None, options: Options) -> None:
        unknown = options.keys() - Options.__annotations__.keys()
        if unknown:
            message = f"a client has no argument '{min(unknown)}'; it has {', '.join(sorted(Options.__annotations__))}"
            raise TypeError(message)
        self._nats = nats
        self._options = options
        self._place: Place | None = None
        self._way: Way | None = None
        self.effort = Effort(options.get("retry_for_s", RETRY_FOR_S))

    def way(self) -> Way:
        """The way to ask.

        Raises:
            Refused, Unavailable: nothing was found, or it can't be used.
        """
        if self._way is None:
            place, admin = self._found(), self._options.get("admin", False)
            own = None if admin else own_channel(place)
            who = Asker("") if own is not None else asker_at(place, self._options.get("user"), admin=admin)
            self._way = Way(place, who, None if own is None else own.path)
        return self._way

    def bus_way(self) -> Way:
        """The way over the broker, which carries sessions; a login socket does not.

        Raises:
            Refused, Unavailable: as :meth:`way`.
        """
        place, admin = self._found(), self._options.get("admin", False)
        return Way(place, asker_at(place, self._options.get("user"), admin=admin), None)

    def is_local(self) -> bool:
        """Whether jobs can use this process's directory. A broker that was named may belong to other machines."""
        return not self._found().by_bus

    def _found(self) -> Place:
        if self._place is None:
            options = self._options
            directory, creds = options.get("directory"), options.get("creds")
            tls = TlsFiles(*(_path(options, name) for name in ("ca", "tls_cert", "tls_key")))
            named = Named(None if directory is None else os.fspath(directory), self._nats)
            given = Given(named, None if creds is None else os.fspath(creds), options.get("user"), tls)
            self._place = locate(given)
        return self._place


def _path(options: Options, name: str) -> Path | None:
    given = options.get(name)
    return None if given is None else Path(str(given)).expanduser()
