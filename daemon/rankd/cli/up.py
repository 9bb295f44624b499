"""``rankd up``: everything on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.bus.address import user_in
from rankd.cli.option import add_command

if TYPE_CHECKING:
    from rankd.cli.option import Subparsers
    from rankd.services.up import Up


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(subparsers, "up", run, "Run broker, database and all services on this machine until Ctrl-C.")
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(os.environ.get("RANKD_DIR") or ".rankd"),
        help="where everything is kept ($RANKD_DIR; default .rankd)",
    )
    parser.add_argument("--config", type=Path, metavar="DIR", help="the configuration (default: the one that ships)")
    parser.add_argument("--simulate", type=int, default=0, metavar="N", help="add N simulated nodes")
    parser.add_argument("--no-local-agent", action="store_true", help="run no jobs on this machine itself")
    parser.add_argument("--nats", metavar="URL", help="use this broker instead of the embedded one")
    parser.add_argument("--port", type=int, default=0, help="the embedded broker's port (default: a free one)")
    parser.add_argument("--name", default=os.uname().nodename.partition(".")[0], help="this machine's name as a node")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal; 0 if everything stopped cleanly."""
    import asyncio

    from rankd.cli.service import serve
    from rankd.services import up
    from rankd.store.migration import shipped

    options = up.UpOptions(
        directory=arguments.dir,
        config=arguments.config or shipped("config"),
        simulate=arguments.simulate,
        local_agent=not arguments.no_local_agent,
        agent_name=arguments.name,
        nats=arguments.nats,
        port=arguments.port,
    )
    print(f"rankd up: starting in {arguments.dir.absolute()}, configuration {options.config}", flush=True)
    hangup = asyncio.Event()
    status = serve(
        lambda stop: up.run(options, stop, lambda state: _announce(arguments, state), hangup),
        "up",
        log_level=arguments.log_level,
        hangup=hangup,
    )
    print("rankd up: everything has stopped", flush=True)
    return status


def _announce(arguments: argparse.Namespace, state: Up) -> None:
    """What runs where, and what to do next."""
    processes = ", ".join(f"{name} {pid}" for name, pid in state.pids.items())
    nodes = [arguments.name] * (not arguments.no_local_agent)
    if arguments.simulate:
        nodes.append(f"sim-1..sim-{arguments.simulate} (simulated: jobs only take their time)")
    believed = "no authentication: whoever reaches it is believed to be who it says it is"
    if user_in(arguments.nats or ""):
        believed = "it asks who connects; others connect with a user and a password of their own: $RANKD_NATS"
    flag = "" if str(arguments.dir) == ".rankd" else f" --dir {arguments.dir}"
    print(
        f"""
rankd is up
  broker     {state.nats}   ({believed})
  database   {state.db}
  processes  {processes}
  nodes      {", ".join(nodes) or "none"}
  jobs run as '{_login()}', who started this; logs are in {arguments.dir}/log

Try, in another terminal:
  rankd submit{flag} -- sh -c 'echo hello; sleep 5'
  rankd queue{flag}            rankd prio{flag} -l
  sqlite3 -readonly {state.db} 'select * from job_priority'

Ctrl-C stops everything; what is queued stays.""",
        flush=True,
    )


def _login() -> str:
    import getpass

    return getpass.getuser()
