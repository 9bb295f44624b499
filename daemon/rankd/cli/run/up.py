"""``rankd up``: everything on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.bus.address import user_in, without_secret
from rankd.cli.common.option import add_command, refuse_empty
from rankd.cli.common.output import OutputError
from rankd.cli.services.service_command import pairs
from rankd.core.errors import Refused
from rankd.core.printable import printable

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers
    from rankd.services.up.service import Up


LARGEST_PORT = 65_535


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
    parser.add_argument("--simulate", type=int, default=0, metavar="N", help="add N simulated nodes (default: 0)")
    parser.add_argument("--no-local-agent", action="store_true", help="don't run jobs on this machine")
    _add_broker(parser)
    _add_node(parser)
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
    parser.add_argument("--nats", metavar="URL", help="use this broker in place of the embedded one")
    parser.add_argument(
        "--listen",
        metavar="ADDRESS",
        help="address on which the embedded broker listens (default: 127.0.0.1); agents on other machines need one."
        " It has no authentication: anyone who can connect can act as any user and run commands here",
    )
    parser.add_argument("--port", type=port, default=0, help="port of the embedded broker (default: 0, any free port)")


def _add_node(parser: argparse.ArgumentParser) -> None:
    """Options for this machine as a node."""
    parser.add_argument(
        "--name",
        default=os.uname().nodename.partition(".")[0],
        help="name of this machine as a node (default: the host's name)",
    )
    parser.add_argument(
        "--resources",
        type=pairs,
        metavar="vcore=8,memory=16Gi",
        help="what this node offers (default: the host's cores and memory)",
    )
    parser.add_argument(
        "--labels", type=pairs, default={}, metavar="K=V,...", help="labels of this node, for `rankd submit -C`"
    )


def port(text: str) -> int:
    """``4222``; 0 means a free one."""
    if not text.isdecimal() or int(text) > LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port; write a number from 1 to {LARGEST_PORT}, or 0")
    return int(text)


def _check_addresses(arguments: argparse.Namespace) -> None:
    """Check the addresses, before anything starts.

    Raises:
        Refused: ``usage``.
    """
    refuse_empty(arguments, "dir", "nats", "listen")
    if arguments.nats and arguments.listen:
        raise Refused("usage", "--listen is for the embedded broker; leave it out with --nats", "listen")
    if arguments.nats:
        without_secret(arguments.nats)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal. Returns 0 if everything stopped cleanly."""
    import asyncio

    from rankd.cli.services.process import serve
    from rankd.core.model.quantity import parse_resources
    from rankd.services.up import service as up
    from rankd.services.up.command import UpOptions
    from rankd.store.schema.migration import shipped

    _check_addresses(arguments)
    arguments.dir = Path(arguments.dir)
    if arguments.resources is not None:
        parse_resources(arguments.resources)
    options = UpOptions(
        directory=arguments.dir,
        config=arguments.config or shipped("config"),
        simulate=arguments.simulate,
        local_agent=not arguments.no_local_agent,
        agent_name=arguments.name,
        resources=arguments.resources,
        labels=arguments.labels,
        nats=arguments.nats,
        listen=arguments.listen or "127.0.0.1",
        port=arguments.port,
        keep_jobs=arguments.keep_jobs,
    )
    where = printable(f"{arguments.dir.absolute()}, configuration {options.config}")
    print(f"rankd up: starting in {where}", flush=True)
    hangup, hurry = asyncio.Event(), asyncio.Event()
    status = serve(
        lambda stop: up.run(options, up.Told(stop=stop, hurry=hurry, hangup=hangup), _Terminal(arguments)),
        "up",
        log_level=arguments.log_level,
        hangup=hangup,
        again=hurry,
    )
    print("rankd up: everything has stopped", flush=True)
    return status


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
  jobs run as '{_login()}', who started this; logs are in {printable(str(arguments.dir))}/log

Try, in another terminal:
  rankd submit{flag} -- sh -c 'echo hello; sleep 5'
  rankd queue{flag}            rankd prio{flag} -l
  sqlite3 -readonly {_word(state.db)} 'select * from job_priority'

Ctrl-C stops everything; {"running jobs go on, " if arguments.keep_jobs else ""}queued jobs stay."""
    )
    if arguments.listen:
        _say("\n".join(_joining(arguments.listen, state.nats)))


def _word(path: Path | str) -> str:
    """The text, quoted for a shell."""
    return printable(shlex.quote(str(path)))


def _joining(listen: str, url: str) -> list[str]:
    """Lines that say how another machine joins, with a warning if the port is open to others."""
    from rankd.services.up.broker import is_loopback, url_of

    port = int(url.rpartition(":")[2])
    joined = url if url != url_of("0.0.0.0", port) else f"nats://THIS-HOST:{port}"  # noqa: S104 - nothing is bound here
    lines = ["", "Another machine joins with:", f"  rankd agent --nats {joined} --name NODE --state DIR"]
    if not is_loopback(listen):
        lines += [
            f"WARNING: the broker has no authentication. Anyone who can reach {listen} port {port} can act as any",
            f"user or administrator, and run commands as '{_login()}' on this machine.",
            "Let only machines that you trust reach this port (a firewall), or use a broker that knows its users.",
        ]
    return lines


def _login() -> str:
    import getpass

    return getpass.getuser()
