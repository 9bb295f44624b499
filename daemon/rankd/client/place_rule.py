"""Which rankd a command uses. Pure: names and findings are arguments; it reads no environment and no files.

One rule for all commands. The first of these sources that names anything wins: options, environment variables, a
directory ``.rankd`` here or in a parent directory, the user's own file. Later sources are then ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

WRITABLE_BY_OTHERS = 0o022


class Named(NamedTuple):
    """The names in one source: the directory of ``rankd up``, the broker's URL, the database."""

    dir: str | None = None
    nats: str | None = None
    db: str | None = None

    def shown(self, words: Named) -> str:
        """The words that name something: ``--nats and --db``."""
        return " and ".join(word for word, value in zip(words, self, strict=True) if value and word)


class Found(NamedTuple):
    """A file or directory that was examined: the owner's id, its permission bits, and whether it is a link."""

    path: str
    owner: int
    mode: int
    is_link: bool = False


class PassedOver(NamedTuple):
    """A directory that does not count, and why. ``is_own``: the user's own; the user may believe that it is used."""

    text: str
    is_own: bool


class BrokerFiles(NamedTuple):
    """Files for a broker: credentials, and those for encrypted connections."""

    creds: str | None = None
    ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None


class Chosen(NamedTuple):
    """The source that won. ``reason`` says which it is. ``is_found``: its directory was found, not named.

    ``files``: what the user's own file names besides the broker.
    """

    named: Named
    reason: str
    passed_over: tuple[PassedOver, ...] = ()
    is_found: bool = False
    files: BrokerFiles = BrokerFiles()


OPTIONS = Named("--dir", "--nats", "--db")
VARIABLES = Named("$RANKD_DIR", "$RANKD_NATS", "$RANKD_DB")


def choose(
    options: Named,
    environment: Named,
    directories: Iterable[Found],
    user_file: Callable[[], tuple[Found, str, BrokerFiles] | None],
    uid: int,
) -> Chosen:
    """The first source that names anything.

    ``directories``: every ``.rankd``, from the current directory up to the root. ``user_file``: the user's own file,
    the broker that it names, and the files for it. Both are read only when their turn comes. ``uid``: who runs the
    command.

    Raises:
        Refused: ``usage``: other users can write to the user's own file.
    """
    for named, words in ((options, OPTIONS), (environment, VARIABLES)):
        if any(named):
            return Chosen(named, f"named by {named.shown(words)}")
    passed_over: list[PassedOver] = []
    for found in directories:
        why = distrust(found, uid)
        if why is None:
            return Chosen(Named(dir=found.path), f"found {found.path}", tuple(passed_over), is_found=True)
        passed_over.append(PassedOver(f"{found.path}: {why}", found.owner == uid))
    if own := user_file():
        file, nats, files = own
        if why := distrust(file, uid):
            raise Refused("usage", f"{file.path} names the broker, but {why}; mend that, or give --nats URL", "nats")
        return Chosen(Named(nats=nats), f"named in {file.path}", tuple(passed_over), files=files)
    return Chosen(Named(), "nothing was named or found", tuple(passed_over))


def distrust(found: Found, uid: int) -> str | None:
    """Why a file or directory does not count. None if it is the user's own or root's, and nobody else can write it.

    A symbolic link does not count: any user who can write to its parent directory could have made it.
    """
    if found.is_link:
        return "it is a symbolic link"
    if found.owner not in (uid, 0):
        return f"it belongs to user {found.owner}, neither to you nor to root"
    if found.mode & WRITABLE_BY_OTHERS:
        return f"others than its owner can write to it (mode {found.mode & 0o7777:04o})"
    return None
