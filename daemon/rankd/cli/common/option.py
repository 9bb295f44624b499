"""Options that commands share. Every command imports this module, so it imports only argparse and records."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Refused

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - argparse has no public name for it

_APART = r"(?:\[[^\]]*\]|[^,\[])+"  # patterns are compiled at their first use, since every command imports this module
_TASKS = r"[0-9]+_(?:[0-9]+|\[[0-9,:-]+\])"
MOST_IDS = 1_000_000
"""The longest range of ids. A longer one is probably a typing error, and would fill the memory."""

LARGEST_LIMIT = 2**31 - 1
"""The largest limit; it means all."""

LONGEST_INTERVAL_S = 86400.0
"""The longest time between two looks."""

TLS_OPTIONS = ("ca", "tls_cert", "tls_key")
"""The options and, in capitals behind ``RANKD_``, the variables for encrypted connections."""

Run = Callable[[argparse.Namespace], int]


def add_command(
    subparsers: Subparsers, name: str, run: Run, description: str, *, dash_h: bool = True
) -> argparse.ArgumentParser:
    """A command's parser. The description is also its line in the list of a command that has verbs.

    With ``dash_h=False``, ``-h`` is free for ``--noheader``, as in Slurm; ``--help`` stays.
    """
    listed = description.replace("\n", " ").replace("%", "%%")
    parser = subparsers.add_parser(name, help=listed, description=description, add_help=dash_h, allow_abbrev=False)
    if not dash_h:
        parser.add_argument("--help", action="help", help="show this help and exit")
    parser.set_defaults(run=run)
    return parser


def add_place(parser: argparse.ArgumentParser, *, looks: bool = False, broker: bool = False) -> None:
    """Options for where rankd is.

    ``looks``: the command only looks, so it may read the database itself. ``broker``: it needs a connection to the
    broker, not only the login socket.
    """
    group = parser.add_argument_group("where rankd is (the first that names anything: options, variables, .rankd)")
    group.add_argument(
        "--dir",
        metavar="DIR",
        help="the directory of `rankd up` (default: $RANKD_DIR, then .rankd here or in a parent directory)",
    )
    add_broker(group, "URL of the broker (default: $RANKD_NATS, then ~/.config/rankd/client.toml)")
    group.add_argument(
        "--creds",
        metavar="FILE",
        help="credentials for the broker (default: $RANKD_CREDS, then those of `rankd up` in the directory)",
    )
    add_tls(group)
    group.add_argument("--db", metavar="FILE", help="the database file (default: $RANKD_DB)")
    group.add_argument("-v", "--verbose", action="store_true", help="print which rankd was chosen, and why")
    parser.set_defaults(looks=looks, needs_broker=broker)


class AddUrl(argparse.Action):
    """Add the URL of a broker. Several are one text with commas between them, as in ``$RANKD_NATS``."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's signature
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,  # noqa: ARG002 - as above
    ) -> None:
        """Replace the default with the first one, and add the others."""
        given: list[str] = [*getattr(namespace, f"given_{self.dest}", ()), str(values)]
        setattr(namespace, f"given_{self.dest}", given)
        setattr(namespace, self.dest, ",".join(given))


def add_broker(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, text: str, default: str | None = None
) -> None:
    """The option for the broker; ``text``: its help."""
    more = ". Brokers of a cluster: their URLs with commas between them, or the option for each"
    parser.add_argument("--nats", metavar="URL", action=AddUrl, default=default, help=text + more)


def add_tls(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup,
    cert: str = "certificate for a broker that wants one of its clients (default: $RANKD_TLS_CERT)",
) -> None:
    """Options for encrypted connections to the broker. ``cert``: the help of ``--tls-cert``."""
    parser.add_argument(
        "--ca",
        metavar="FILE",
        help="certificate of the CA that signed the broker's (default: $RANKD_CA, then the one in the credentials, then"
        " those of the system). The connection then has to be encrypted",
    )
    parser.add_argument("--tls-cert", metavar="FILE", help=cert)
    parser.add_argument(
        "--tls-key", metavar="FILE", help="the key of that certificate, without a password (default: $RANKD_TLS_KEY)"
    )


def add_asker(parser: argparse.ArgumentParser, *names: str) -> None:
    """Options for who asks, and with which rights. They are the same for every command that sends requests."""
    group = parser.add_argument_group("who asks")
    group.add_argument(
        *(names or ("--as",)),
        dest="asker",
        metavar="USER",
        help="act as this user (default: $RANKD_USER, then the user in the broker's URL, then the login name)",
    )
    group.add_argument("--admin", action="store_true", help="act with an administrator's rights")


JOBS = "17 or 17-20; tasks: 17_[1-5,9]"
"""How jobs are named."""


def add_jobs(parser: argparse.ArgumentParser, *, only: bool = False, several: str = "*") -> None:
    """The argument for job ids. ``only``: they select from all jobs. ``several``: ``nargs`` of argparse."""
    text = f"{'only these jobs' if only else 'job ids'}: {JOBS}"
    parser.add_argument("job", type=job_names, nargs=several, metavar="JOB", help=text)


def add_output(parser: argparse.ArgumentParser, *no_header: str) -> None:
    """Options for the form of the output."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print JSON")
    group.add_argument(*no_header, "--noheader", action="store_true", help="leave out the header line")


def tls_files(arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> TlsFiles:
    """The files that options name, else those of the environment.

    Raises:
        Refused: ``usage``: an option is empty.
    """
    refuse_empty(arguments, *TLS_OPTIONS)
    given = (getattr(arguments, name, None) or environment.get(f"RANKD_{name.upper()}") for name in TLS_OPTIONS)
    return TlsFiles(*(Path(path).expanduser() if path else None for path in given))


def refuse_empty(arguments: argparse.Namespace, *options: str) -> None:
    """Refuse an option with an empty value, such as from a variable of a script that is not set.

    It must not count as left out: the command would then do something else.

    Raises:
        Refused: ``usage``.
    """
    for name in options:
        if str(getattr(arguments, name, None)) == "":
            raise Refused("usage", f"--{name} is empty; give it a value, or leave it out", name)


def limit(text: str) -> int:
    """``20``: the largest number of rows.

    >>> limit("20")
    20
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a limit; write a whole number of at least 1")
    return min(int(text), LARGEST_LIMIT)


def interval(text: str) -> float:
    """``2``: the seconds between two looks. Shorter ones would load the service or the database for nothing.

    >>> interval("2.5")
    2.5
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= LONGEST_INTERVAL_S:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time between two looks; write a number of seconds from 1")
    return seconds


def names(text: str) -> list[str]:
    """``a,b`` as a list.

    >>> names("a, b,")
    ['a', 'b']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def ids(text: str) -> list[int]:
    """``1,2,7-9`` as a list of ids, such as those of dead letters.

    >>> ids("1,7-9")
    [1, 7, 8, 9]
    """
    found: list[int] = []
    for part in names(text):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and 0 <= int(last) - int(first) < MOST_IDS):
            raise argparse.ArgumentTypeError(f"'{part}' is not an id; write 3 or 3,4 or 3-7")
        found.extend(range(int(first), int(last) + 1))
    return found


def job_names(text: str) -> list[int | str]:
    """``1,7-9,17_3,17_[1-5,9]`` as a list of ids, and texts: ranges of ids, and names of tasks.

    >>> job_names("7,8-9,17_3,17_[1-5,9]")
    [7, '8-9', '17_3', '17_[1-5,9]']
    """
    return [_job_name(word, text) for part in re.findall(_APART, text) if (word := part.strip())]


def _job_name(text: str, whole: str) -> int | str:
    if re.fullmatch(_TASKS, text):
        return text
    first, dash, last = text.partition("-")
    if not (text.isascii() and first.isdecimal() and (last.isdecimal() or not dash)):
        shown = whole if "_" in text else text
        raise argparse.ArgumentTypeError(f"'{shown}' is not a job id; write 17, 17-20, 17_3 or 17_[1-5,9]")
    if dash and int(last) < int(first):
        raise argparse.ArgumentTypeError(f"the range {text} ends before it begins; write the smaller id first")
    return text if dash else int(first)


def job_name(text: str) -> int | str:
    """``17``, or a task ``17_3``."""
    found = job_names(text)
    if len(found) != 1 or (isinstance(found[0], str) and "_" not in found[0]):
        raise argparse.ArgumentTypeError(f"'{text}' is not one job; write 17 or 17_3")
    return found[0]
