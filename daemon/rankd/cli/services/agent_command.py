"""``rankd agent``: runs jobs on a node, or simulates nodes."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.node_resources import add_devices, node_resources
from rankd.cli.common.option import tls_files
from rankd.cli.services.service_option import add_service, need, pairs, seconds, serve_as

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers
    from rankd.services.agent.device_watch import Machine
    from rankd.services.agent.given_device import GivenDevices


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_service(subparsers, "agent", run_agent, "Run jobs on this node, or simulate many nodes.")
    parser.add_argument(
        "--state",
        metavar="DIR",
        type=Path,
        required=True,
        help="directory for the agent's records of its jobs; keep it over restarts",
    )
    parser.add_argument(
        "--output", metavar="DIR", type=Path, help="directory for the jobs' output (default: output/ in --state)"
    )
    _add_enrolment(parser)
    _add_node(parser)
    _add_rights(parser)
    parser.add_argument(
        "--drain-on-stop",
        nargs="?",
        type=seconds,
        const=0.0,
        metavar="SECONDS",
        help="when stopped, wait SECONDS (default: 0) for running jobs, then end them; without this option they run on",
    )
    parser.add_argument(
        "--no-devices",
        action="store_true",
        help="don't look for GPUs, and offer none that were not given (default: offer those that the drivers report)",
    )
    parser.add_argument(
        "--no-limits", action="store_true", help="don't limit jobs to their memory and cores with control groups"
    )
    parser.add_argument(
        "--no-hooks",
        action="store_true",
        help="run no prolog, epilog or health check on this node, whatever the site's configuration names",
    )
    parser.add_argument(
        "--login-socket",
        metavar="FILE",
        type=Path,
        help="a Unix socket, such as /run/rankd/login.sock, on which users of this machine ask as themselves:"
        " `rankd submit --dir /run/rankd`; an administrator has to allow it: `rankd node trust NODE`",
    )


def _add_enrolment(parser: argparse.ArgumentParser) -> None:
    """Options for the first start of a new node."""
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        default=os.environ.get("RANKD_TOKEN_FILE") or None,
        help="at the first start: file with the token of `rankd node enrol`, - for standard input (default:"
        " $RANKD_TOKEN_FILE). The agent keeps the credentials in --state; later starts need no token, and no --nats",
    )
    parser.add_argument(
        "--token",
        metavar="TOKEN",
        help="the token itself; other users of this machine can see it in the list of processes",
    )


def _add_node(parser: argparse.ArgumentParser) -> None:
    """Options for the node."""
    parser.add_argument("--name", metavar="NODE", help="the node's name (default: the host's)")
    parser.add_argument(
        "--simulate", type=int, default=0, metavar="N", help="simulate N nodes, whose jobs only take time"
    )
    parser.add_argument("--partition", default="default", help="the partition of the nodes (default: default)")
    parser.add_argument(
        "--resources",
        type=node_resources,
        metavar="vcore=8,memory=16Gi",
        help="what the node offers (default: the host's cores and memory)",
    )
    add_devices(parser, "the node")
    parser.add_argument(
        "--devices",
        metavar="FILE",
        type=Path,
        help="the node's devices: a TOML file with a table [[device]] each (model, id, index, group, memory, path)",
    )
    parser.add_argument(
        "--labels", type=pairs, default={}, metavar="K=V,...", help="labels of the node, for `rankd submit -C`"
    )


def _add_rights(parser: argparse.ArgumentParser) -> None:
    """Options for the users that jobs run as."""
    parser.add_argument(
        "--run-as",
        choices=["submitter", "agent"],
        help="run jobs as the user who submitted them (needs root; default for root), or as the agent's own user",
    )
    parser.add_argument(
        "--otherwise-as",
        metavar="USER",
        help="with --run-as submitter: run jobs of users who are unknown on this host as USER",
    )
    parser.add_argument(
        "--owner",
        metavar="USER",
        help="with --run-as submitter: also run USER's jobs as the agent's own user, which may be root. `rankd up` says"
        " so for the user who starts it; do not trust other services with it",
    )


def run_agent(arguments: argparse.Namespace) -> int:
    """Run jobs until stopped."""
    from rankd.cli.services.agent_enrolment import belonging

    found = belonging(arguments)
    arguments.nats = found.nats
    need(arguments, "nats")
    import asyncio

    from rankd.services.agent.identity import RunAs, usual_mode
    from rankd.services.agent.service import AgentOptions, run

    options = AgentOptions(
        nats=arguments.nats,
        creds=found.creds,
        renews=found.is_kept,
        tls=tls_files(arguments),
        state_dir=arguments.state,
        output_dir=arguments.output,
        name=os.uname().nodename if found.name is None else found.name,
        simulate=arguments.simulate,
        partition=arguments.partition,
        resources=arguments.resources,
        labels=arguments.labels,
        devices=_devices(arguments),
        run_as=RunAs(mode=arguments.run_as or usual_mode(), otherwise=arguments.otherwise_as, owner=arguments.owner),
        limited=not arguments.no_limits,
        hooked=not arguments.no_hooks,
        drain_on_stop_s=arguments.drain_on_stop,
        login_socket=arguments.login_socket,
        machine=_machine(arguments),
    )
    hurry = asyncio.Event()
    main = lambda stop, exported: run(options, stop, hurry, exported=exported)  # noqa: E731 - a closure over options
    return serve_as(arguments, "agent", main, again=hurry)


def _machine(arguments: argparse.Namespace) -> Machine | None:
    """Where the agent looks for devices; None: nowhere."""
    from rankd.services.agent.device_watch import Machine

    return None if arguments.no_devices or arguments.simulate else Machine()


def _devices(arguments: argparse.Namespace) -> GivenDevices:
    from rankd.services.agent.given_device import GivenDevices, read_file

    of_file = read_file(arguments.devices) if arguments.devices else ()
    return GivenDevices([spec for _, spec in arguments.device], of_file)
