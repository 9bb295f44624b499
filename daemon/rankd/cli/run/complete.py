"""``rankd complete``: the names that a shell offers, for the scripts of :mod:`.completion`. ``rankd --help`` hides it.

It runs while somebody types, so it has a time limit, and prints all names or none. It never prints an error. The shell
puts the names into a command line, and they may be of other users: names with characters that a shell could interpret
are left out.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, add_place
from rankd.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rankd.cli.common.option import Subparsers
    from rankd.cli.common.record_source import Source

WITHIN_S = 0.15
"""With the interpreter's start, this is 0.2 s."""
MOST_DIGITS = 16
"""A number with this many digits, or more, is not the id of a job."""
MOST = 200
"""The most names that are offered, and the most jobs that are read."""
BESIDE_LETTERS = frozenset("_.-")
INTERPRETED = frozenset("$`\"'\\*?[")
"""Characters of a value that the shell has not expanded yet when it asks."""


def add_parser(subparsers: Subparsers) -> None:
    """Add ``complete``."""
    parser = add_command(subparsers, "complete", run, "Print the names that begin with a prefix, for shells.")
    parser.add_argument("--within", type=float, default=WITHIN_S, metavar="SECONDS", help="give up after this time")
    parser.add_argument("kind", choices=(*_NAMES, *_FIXED), help="what is completed")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="WORD", help="the prefix, then the words before it")


def run(arguments: argparse.Namespace) -> int:
    """Print the names, each on a line."""
    import faulthandler

    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
        faulthandler.dump_traceback_later(arguments.within, exit=True, file=nowhere)  # also inside of a query
        found: list[str] = []
        with suppress(Exception, SystemExit):
            prefix, *words = arguments.words or [""]
            fixed = _FIXED.get(arguments.kind)
            names = _NAMES[arguments.kind](_source(words), _last(prefix)) if fixed is None else fixed()
            found = offered(names, prefix)
        faulthandler.cancel_dump_traceback_later()
    print("".join(f"{name}\n" for name in found), end="")
    return 0


def offered(names: Iterable[str], prefix: str) -> list[str]:
    """The first :data:`MOST` names that continue the prefix. In a list (``17,18``), it is behind the last comma.

    >>> offered(["17", "18", "27", "$(rm)"], "5,1")
    ['5,17', '5,18']
    """
    last = _last(prefix)
    fitting = (name for name in dict.fromkeys(names) if name.startswith(last) and is_safe(name))
    return [f"{prefix.removesuffix(last)}{name}" for name in islice(fitting, MOST)]


def _last(prefix: str) -> str:
    return prefix.rpartition(",")[2]


def is_safe(name: str) -> bool:
    """Whether a name consists of letters, digits, ``_``, ``.`` and ``-``, and is not an option.

    >>> [is_safe(name) for name in ("root.größe", "n-1", "-rf", "a b", "$(id)", "a;b", "")]
    [True, True, False, False, False, False, False]
    """
    letters = all(character.isalnum() or character in BESIDE_LETTERS for character in name)
    return bool(name) and letters and not name.startswith("-") and printable(name) == name


def place_words(words: Sequence[str]) -> list[str]:
    """The words of a command line as argparse takes them: bash cuts ``--dir=x`` into three.

    >>> place_words(["queue", "--dir", "=", "x", "--nats=y"])
    ['queue', '--dir=x', '--nats=y']
    """
    joined: list[str] = []
    for word in words:
        if joined and (word == "=" or joined[-1].endswith("=")) and joined[-1].startswith("--"):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _source(words: Sequence[str]) -> Source:
    """The records of the rankd that the command line names, or else of the one that is found."""
    from rankd.cli.common.record_source import open_source

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_place(parser, looks=True)
    add_asker(parser)
    named, _ = parser.parse_known_args(place_words(words))
    for name in ("dir", "nats", "creds", "db", "ca", "tls_cert", "tls_key", "asker"):
        value = getattr(named, name)
        if value is not None and INTERPRETED & set(value):
            raise ValueError(name)
        if value is not None:
            setattr(named, name, os.path.expanduser(value))  # noqa: PTH111 - a text
    return open_source(named)


def _jobs(source: Source, begun: str) -> Iterator[str]:
    """Jobs that have not ended: those that continue a number by up to two digits, then the newest."""
    from rankd.wire.job_selection import JobFilter

    active = ["pending", "running"]
    for ids in [continued(int(begun)), None] if begun.isdecimal() and len(begun) < MOST_DIGITS else [None]:
        yield from (str(row["id"]) for row in reversed(source.jobs(JobFilter(ids=ids, states=active, limit=MOST))))


def continued(number: int) -> list[int | str]:
    """The number, and all with one or two digits more.

    >>> continued(17)[:3], len(continued(17))
    ([17, 170, 171], 111)
    """
    return [number * ten + more for ten in (1, 10, 100) for more in range(ten)]


def _queues(source: Source, _: str) -> Iterator[str]:
    return (row["path"] for row in source.queues())


def _leaf_queues(source: Source, begun: str) -> Iterator[str]:
    return of_leaves([row["path"] for row in source.queues()], begun)


def of_leaves(paths: Sequence[str], begun: str) -> Iterator[str]:
    """The queues that take jobs, without the leading ``root.``; whole if what is begun may be whole.

    >>> [list(of_leaves(["root", "root.a", "root.a.b"], begun)) for begun in ("", "root.")]
    [['a.b'], ['root.a.b', 'a.b']]
    """
    parents = {path.rpartition(".")[0] for path in paths}
    leaves = [path for path in paths if path not in parents]
    short = (path.removeprefix("root.") for path in leaves)
    return chain(leaves, short) if begun and begun[:5] == "root."[: len(begun)] else short


def _partitions(source: Source, _: str) -> Iterator[str]:
    return (row["partition"] for row in source.queues())


def _nodes(source: Source, _: str) -> Iterator[str]:
    return (row["name"] for row in source.nodes())


def _classes(source: Source, _: str) -> Iterator[str]:
    return (row["name"] for row in source.classes())


def _users(source: Source, _: str) -> Iterator[str]:
    return (row["user"] for row in source.shares() if row["user"] is not None)


def _accounts(source: Source, _: str) -> Iterator[str]:
    return (row["account"] for row in source.shares())


def _qos(source: Source, _: str) -> Iterator[str]:
    """The QoS of the newest jobs that have not ended."""
    from rankd.wire.job_selection import JobFilter

    found = source.jobs(JobFilter(states=["pending", "running"], limit=MOST))
    return (row["qos"] for row in found if row["qos"] is not None)


def _states() -> Iterable[str]:
    """In rankd's words, by Slurm's letters, and in its words."""
    from rankd.cli.look.queue import SHORT_STATES

    return ["all", *SHORT_STATES, *SHORT_STATES.values(), *map(str.upper, SHORT_STATES)]


def _node_states() -> Iterable[str]:
    return ["idle", "mixed", "allocated", "draining", "drained", "down", "lost"]


def _acct_fields() -> Iterable[str]:
    from rankd.cli.common.freshness import Known
    from rankd.cli.look.accounting_field import fields

    return ["ALL", *(field.header for field in fields(Known({}, {}, 0.0)).values())]


def _share_columns() -> Iterable[str]:
    from rankd.cli.look.share import fields

    return fields()


_FIXED: dict[str, Callable[[], Iterable[str]]] = {
    "states": _states,
    "node_states": _node_states,
    "acct_fields": _acct_fields,
    "share_columns": _share_columns,
}
"""Names that are the same everywhere: no rankd is asked."""

_NAMES: dict[str, Callable[[Source, str], Iterator[str]]] = {
    "jobs": _jobs,
    "queues": _queues,
    "leaf_queues": _leaf_queues,
    "partitions": _partitions,
    "nodes": _nodes,
    "classes": _classes,
    "users": _users,
    "accounts": _accounts,
    "qos": _qos,
}
