"""``rankd up``: everything on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.bus.address import user_in, without_secret
from rankd.cli.common.node_resources import add_devices, node_resources
from rankd.cli.common.option import add_broker, add_command, refuse_empty
from rankd.cli.common.output import OutputError
from rankd.cli.run.up_encryption import add_encryption, broker_encrypts, check_encryption, tls_of
from rankd.cli.run.up_page import add_page, has_page, page_in_words
from rankd.cli.run.up_rights import (
    add_rights,
    check_rights,
    invitation_of_others,
    is_shared,
    rights_in_words,
    run_as_of,
)
from rankd.cli.services.service_option import add_metrics, exporting, pairs, port
from rankd.client.asker import login_name
from rankd.core.errors import Refused
from rankd.core.model.server_url import is_postgres
from rankd.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rankd.cli.common.option import Subparsers
    from rankd.services.up.command import UpOptions
    from rankd.services.up.interface import Up


LONGEST_NUMBER = 6


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(subparsers, "up", run, "Run broker, database and all services on this machine until Ctrl-C.")
    parser.add_argument(
        "--dir",
        default=os.environ.get("RANKD_DIR") or ".rankd",
        help="directory for everything that rankd stores (default: $RANKD_DIR, then .rankd)",
    )
    parser.add_argument(
        "--config", type=Path, metavar="DIR", help="directory of the configuration (default: the one that ships)"
    )
    parser.add_argument(
        "--simulate", type=_number_of_nodes, default=0, metavar="N", help="add N simulated nodes (default: 0)"
    )
    parser.add_argument("--no-local-agent", action="store_true", help="don't run jobs on this machine")
    parser.add_argument(
        "--no-notifier",
        action="store_true",
        help="send no notifications; `rankd notifier` runs elsewhere, such as in a unit of its own",
    )
    parser.add_argument(
        "--db",
        metavar="KIND",
        help="where the records are kept: sqlite (the default), postgresql (a server run in the directory),"
        " or postgresql://USER@HOST/NAME, a server that runs already (default: $RANKD_DB, if it names a server)",
    )
    add_page(parser)
    add_metrics(parser)
    _add_broker(parser)
    _add_node(parser)
    add_rights(parser)
    parser.add_argument(
        "--keep-jobs", action="store_true", help="leave jobs running on Ctrl-C; the next `rankd up` continues with them"
    )
    parser.add_argument(
        "--log-level",
        default="info",
        choices=["debug", "info", "warning", "error"],
        help="least level that is logged (default: info)",
    )


def _add_broker(parser: argparse.ArgumentParser) -> None:
    """Options for the broker."""
    add_broker(parser, "use this broker in place of the embedded one")
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="address on which the embedded broker listens (default: 127.0.0.1); agents on other machines need one."
        " They need a token: `rankd node enrol NODE`",
    )
    parser.add_argument("--port", type=port, default=0, help="port of the embedded broker (default: 0, any free port)")
    add_encryption(parser)


def _add_node(parser: argparse.ArgumentParser) -> None:
    """Options for this machine as a node."""
    parser.add_argument(
        "--name",
        default=os.uname().nodename.partition(".")[0],
        help="name of this machine as a node (default: the host's name)",
    )
    parser.add_argument(
        "--resources",
        type=node_resources,
        metavar="vcore=8,memory=16Gi",
        help="what this node offers (default: the host's cores and memory)",
    )
    add_devices(parser, "this node, and each simulated one,")
    parser.add_argument(
        "--labels", type=pairs, default={}, metavar="K=V,...", help="labels of this node, for `rankd submit -C`"
    )


def _number_of_nodes(text: str) -> int:
    """A number from 0, in ASCII digits."""
    if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST_NUMBER:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0")
    return int(text)


def _check_addresses(arguments: argparse.Namespace) -> None:
    """Check the addresses, before anything starts.

    Raises:
        Refused: ``usage``.
    """
    from rankd.services.up.address import is_loopback

    refuse_empty(arguments, "dir", "nats", "listen", "db")
    if arguments.db is None and is_postgres(os.environ.get("RANKD_DB")):
        arguments.db = os.environ["RANKD_DB"]
    if arguments.nats and arguments.listen:
        raise Refused("usage", "--listen is for the embedded broker; leave it out with --nats", "listen")
    if arguments.no_auth and arguments.listen and not is_loopback(arguments.listen):
        message = f"--no-auth is for trials on loopback: at {arguments.listen}, everybody could run commands here"
        raise Refused("usage", message, "no_auth")
    check_rights(arguments)
    if arguments.nats:
        without_secret(arguments.nats)
    check_encryption(arguments)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal. Returns 0 if everything stopped cleanly."""
    import asyncio

    from rankd.cli.main import main
    from rankd.cli.run.nursery import begin
    from rankd.cli.services.process import serve
    from rankd.config.other_writer import other_writers
    from rankd.core.model.quantity import parse_resources
    from rankd.services.up import service as up
    from rankd.services.up.interface import Told

    _check_addresses(arguments)
    arguments.dir = Path(arguments.dir)
    if arguments.resources is not None:
        parse_resources(arguments.resources)
    options = _options(arguments)
    where = printable(f"{arguments.dir.absolute()}, configuration {options.config}")
    print(f"rankd up: starting in {where}", flush=True)
    for problem in other_writers(options.config):
        print(f"rankd up: warning: {printable(str(problem))}", file=sys.stderr)
    nursery = begin()
    if isinstance(nursery, list):
        return main(nursery)
    hangup, hurry = asyncio.Event(), asyncio.Event()
    told, tell = partial(Told, hurry=hurry, hangup=hangup), _Terminal(arguments)
    with nursery or nullcontext():
        status = serve(
            exporting(arguments, "up", lambda stop, figures: up.run(options, told(stop=stop), tell, nursery, figures)),
            "up",
            log_level=arguments.log_level,
            hangup=hangup,
            again=hurry,
        )
    print("rankd up: everything has stopped", flush=True)
    return status


def _options(arguments: argparse.Namespace) -> UpOptions:
    from rankd.services.up.command import UpOptions
    from rankd.store.schema.migration import shipped

    return UpOptions(
        directory=arguments.dir,
        config=arguments.config or shipped("config"),
        simulate=arguments.simulate,
        local_agent=not arguments.no_local_agent,
        agent_name=arguments.name,
        resources=arguments.resources,
        labels=arguments.labels,
        devices=tuple(text for text, _ in arguments.device),
        nats=arguments.nats,
        db=arguments.db,
        listen=arguments.listen or "127.0.0.1",
        port=arguments.port,
        admin=login_name(),
        is_encrypted=broker_encrypts(arguments),
        tls=tls_of(arguments),
        tls_names=tuple(arguments.tls_name),
        is_shared=is_shared(arguments),
        run_as=run_as_of(arguments),
        has_authentication=not arguments.no_auth,
        keep_jobs=arguments.keep_jobs,
        has_notifications=not arguments.no_notifier,
        has_web=has_page(arguments),
        web_port=arguments.web_port,
    )


class _Terminal:
    """Prints the reports of ``up`` as lines on the terminal."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments

    def ready(self, state: Up) -> None:
        """Print what runs where, and what to do next."""
        _announce(self._arguments, state)

    def waiting(self, service: str, verdict: str) -> None:
        """Print which service ``up`` waits for."""
        from rankd.services.runtime.log_file import last_line

        log = self._arguments.dir / "log" / f"{service}.log"
        said = last_line(log)
        its_last = f"the last line of its log {log}: {said}" if said else f"its log is {log}"
        _say(printable(f"rankd up: waiting for {service}: {verdict}; {its_last}"))

    def stopping(self, running: int, grace_s: float) -> None:
        """Print what will happen to the running jobs."""
        jobs = "1 job is running" if running == 1 else f"{running} jobs are running"
        _say(f"rankd up: {jobs}; " + (KEPT if self._arguments.keep_jobs else ENDED.format(grace_s)))


def _say(text: str) -> None:
    """Print a line. If it can't be written, the services continue."""
    try:
        print(text, flush=True)
    except OutputError as error:
        print(f"rankd: {error}; rankd up continues", file=sys.stderr)
    except BrokenPipeError:
        pass


ENDED = (
    "they are told to end (SIGTERM), have {:g} s for it, and are queued again."
    " Ctrl-C again kills them now. `rankd up --keep-jobs` would leave them running."
)
KEPT = "they go on without rankd, and the next `rankd up` finds them. Jobs of simulated nodes are queued again."


def _announce(arguments: argparse.Namespace, state: Up) -> None:
    """Print what runs where, and what to do next."""
    processes = ", ".join(f"{name} {pid}" for name, pid in state.pids.items())
    nodes = [arguments.name] * (not arguments.no_local_agent)
    if arguments.simulate:
        nodes.append(f"sim-1..sim-{arguments.simulate} (simulated: jobs only take their time)")
    believed = "only with credentials of this site"
    if state.creds is None:
        believed = "no authentication: anyone who can connect can act as any user"
    if arguments.nats and user_in(arguments.nats):
        believed = "it asks who connects; others connect with a user and a password of their own: $RANKD_NATS"
    flag = "" if str(arguments.dir) == ".rankd" else f" --dir {_word(arguments.dir)}"
    _say(
        f"""
rankd is up
  broker     {state.nats}   ({believed})
  database   {printable(state.db)}
  processes  {processes}
  nodes      {", ".join(nodes) or "none"}
  jobs run as {rights_in_words(arguments, _login())}
  page       {page_in_words(arguments.dir, state, flag)}
  logs are in {printable(str(arguments.dir))}/log

Try, in another terminal:
  rankd submit{flag} -- sh -c 'echo hello; sleep 5'
  rankd queue{flag}            rankd prio{flag} -l
  {_sql(state, flag)} 'select * from job_priority'

Ctrl-C stops everything; {"running jobs go on, " if arguments.keep_jobs else ""}queued jobs stay."""  # noqa: S608 - a hint for people; nobody runs it
    )
    if (invitation := invitation_of_others(arguments, _word(arguments.dir.absolute()))) is not None:
        _say(f"\n{invitation}")
    if arguments.listen:
        _say("\n".join(_joining(state, flag, arguments.listen, arguments.tls_name)))


def _sql(state: Up, flag: str) -> str:
    """The command to which a query can be given."""
    return f"rankd db sql{flag}" if is_postgres(state.db) else f"sqlite3 -readonly {_word(state.db)}"


def _word(path: Path | str) -> str:
    """The text, quoted for a shell."""
    return printable(shlex.quote(str(path)))


def _joining(state: Up, flag: str, listen: str, names: Sequence[str]) -> list[str]:
    """Lines that say how another machine joins. ``names``: those of this machine that were given."""
    from rankd.bus.address import is_encrypted
    from rankd.services.up.address import reached

    joined, port = state.nats, state.nats.rpartition(":")[2]
    if names or reached(listen) != listen:
        joined = f"{joined.partition(':')[0]}://{names[0] if names else os.uname().nodename}:{port}"
    encryption = "The connection is not encrypted: anyone between the machines can read it."
    if is_encrypted(joined):
        encryption = "The connection is encrypted. The token holds what the other machine needs to check this one."
        if state.ca is None:
            encryption = "The connection is encrypted; the other machine checks the certificate with its system's CAs."
    return [
        "",
        "Another machine joins by a token for one use. Here:",
        f"  rankd node enrol{flag} NODE --out NODE.token      (copy the file to that machine, and remove it here)",
        "There:",
        "  rankd agent --token-file NODE.token --state DIR",
        f"A user of another machine: rankd auth invite USER here, rankd login there. The broker: {joined}",
        encryption,
    ]


def _login() -> str:
    import getpass

    return getpass.getuser()
