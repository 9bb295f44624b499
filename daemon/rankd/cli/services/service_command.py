"""``rankd intake``, ``prioritizer``, ``scheduler``, ``agent``, ``gateway``, ``notifier``: one service each."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.bus.address import without_secret
from rankd.cli.common.node_resources import add_devices, node_resources
from rankd.cli.common.option import add_command, add_tls, key_value, tls_files
from rankd.cli.services.process import Main, serve
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from rankd.cli.common.option import Subparsers
    from rankd.core.admission.runnable_user import LocalRights
    from rankd.services.agent.given_device import GivenDevices


def add_parser(subparsers: Subparsers) -> None:
    """Add them all."""
    intake = _service(subparsers, "intake", run_intake, "Accept requests of users and nodes, record them, and answer.")
    _add_store(intake)
    intake.add_argument(
        "--run-as",
        choices=["submitter", "agent"],
        default="agent",
        help="how the nodes run jobs; with submitter, jobs that would not run are refused at once (default: agent)",
    )
    intake.add_argument(
        "--owner",
        metavar="USER",
        help="with --run-as submitter: the user who started this. Root's jobs are accepted if root asks at the login"
        " socket of this machine. If this process is not root's, jobs of other users are refused",
    )
    prioritizer = _service(
        subparsers, "prioritizer", run_prioritizer, "Rank the pending jobs, again after every change."
    )
    _add_store(prioritizer)
    prioritizer.add_argument(
        "--weight",
        action="append",
        type=weight,
        default=[],
        metavar="FACTOR=N",
        help="override one weight of the configuration; may be repeated",
    )
    scheduler = _service(subparsers, "scheduler", run_scheduler, "Start jobs in the order of the ranking.")
    _add_store(scheduler)
    _add_agent(subparsers)
    gateway = _service(subparsers, "gateway", run_gateway, "Let users of this machine ask as themselves.")
    gateway.add_argument(
        "--site", metavar="DIR", type=Path, required=True, help="directory of the site's secret (auth/ of `rankd up`)"
    )
    gateway.add_argument("--socket", metavar="FILE", type=Path, required=True, help="the Unix socket to listen on")
    gateway.add_argument("--owner", metavar="USER", required=True, help="the administrator's name: of who runs this")
    gateway.add_argument("--share", action="store_true", help="let other users of this machine in, as themselves")
    notifier = _service(
        subparsers, "notifier", run_notifier, "Notify users of their jobs, where the configuration allows it."
    )
    _add_store(notifier)
    notifier.add_argument(
        "--key",
        metavar="FILE",
        type=Path,
        required=True,
        help="file with the key for signatures (auth/notify.key of `rankd up`); made if it is missing",
    )


def _service(
    subparsers: Subparsers, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser = add_command(subparsers, name, run, text)
    parser.add_argument(
        "--nats", metavar="URL", default=os.environ.get("RANKD_NATS"), help="URL of the broker (default: $RANKD_NATS)"
    )
    creds = os.environ.get("RANKD_CREDS")
    parser.add_argument(
        "--creds", metavar="FILE", type=Path, default=creds, help="credentials for the broker (default: $RANKD_CREDS)"
    )
    add_tls(parser)
    parser.add_argument(
        "--parent-pid",
        type=int,
        metavar="PID",
        help="stop when the process PID is no longer the parent of this process",
    )
    parser.add_argument(
        "--log-level",
        default="info",
        choices=["debug", "info", "warning", "error"],
        help="least level that is logged (default: info)",
    )
    return parser


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--db", metavar="URL", default=os.environ.get("RANKD_DB"), help="the database file (default: $RANKD_DB)"
    )
    parser.add_argument(
        "--config",
        metavar="DIR",
        type=Path,
        default=os.environ.get("RANKD_CONFIG"),
        help="directory of the configuration (default: $RANKD_CONFIG, then the one that ships)",
    )
    parser.add_argument(
        "--stream-bytes",
        type=amount_of_bytes,
        metavar="SIZE",
        default=os.environ.get("RANKD_STREAM_BYTES") or "832Mi",
        help="size of the broker's streams together when they are created (default: $RANKD_STREAM_BYTES, then 832Mi)",
    )


def _add_agent(subparsers: Subparsers) -> None:
    parser = _service(subparsers, "agent", run_agent, "Run jobs on this node, or simulate many nodes.")
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


def weight(text: str) -> tuple[str, float]:
    """``age=2000``."""
    name, value = key_value(text)
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{value}' is not a number; write {name}=2000") from None


def seconds(text: str) -> float:
    """``90``."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds; write 90, for example")
    return value


def amount_of_bytes(text: str) -> int:
    """``200Mi``, at least 13 MiB."""
    from rankd.bus.stream import LEAST_STREAM_BYTES
    from rankd.core.model.quantity import parse_amount

    try:
        size = parse_amount("memory", text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if size < LEAST_STREAM_BYTES:
        raise argparse.ArgumentTypeError(f"'{text}' is too little: the streams need {LEAST_STREAM_BYTES // 2**20}Mi")
    return size


def pairs(text: str) -> dict[str, str]:
    """``vcore=8,memory=16Gi``."""
    return dict(key_value(item) for item in text.split(",") if item)


def _need(arguments: argparse.Namespace, *flags: str) -> None:
    for flag in flags:
        if not getattr(arguments, flag):
            raise Refused("usage", f"--{flag} (or $RANKD_{flag.upper()}) is needed", flag)
    without_secret(arguments.nats)  # refuses a text that is not the URL of a broker, before anything is opened


def _config(arguments: argparse.Namespace) -> Path:
    from rankd.store.schema.migration import shipped

    return arguments.config or shipped("config")


def run_intake(arguments: argparse.Namespace) -> int:
    """Serve until stopped."""
    _need(arguments, "nats", "db")
    import asyncio

    from rankd.services.intake.service import IntakeOptions, run

    options = IntakeOptions(
        nats=arguments.nats,
        creds=arguments.creds,
        tls=tls_files(arguments),
        db=arguments.db,
        config=_config(arguments),
        stream_bytes=arguments.stream_bytes,
        local=_local_rights(arguments),
    )
    hangup = asyncio.Event()
    return _serve(arguments, "intake", lambda stop: run(options, stop, hangup), hangup)


def _local_rights(arguments: argparse.Namespace) -> LocalRights | None:
    from rankd.core.admission.runnable_user import LocalRights

    if arguments.run_as != "submitter":
        return None
    return LocalRights(arguments.owner or "", is_root=os.geteuid() == 0 or arguments.owner is None)


def run_prioritizer(arguments: argparse.Namespace) -> int:
    """Rank until stopped."""
    _need(arguments, "nats", "db")
    from rankd.services.prioritizer.service import PrioritizerOptions, run

    options = PrioritizerOptions(
        nats=arguments.nats,
        creds=arguments.creds,
        tls=tls_files(arguments),
        db=arguments.db,
        config=_config(arguments),
        weights=dict(arguments.weight),
        stream_bytes=arguments.stream_bytes,
    )
    return _serve(arguments, "prioritizer", lambda stop: run(options, stop))


def run_scheduler(arguments: argparse.Namespace) -> int:
    """Schedule until stopped."""
    _need(arguments, "nats", "db")
    from rankd.services.scheduler.service import SchedulerOptions, run

    options = SchedulerOptions(
        nats=arguments.nats,
        creds=arguments.creds,
        tls=tls_files(arguments),
        db=arguments.db,
        config=_config(arguments),
        stream_bytes=arguments.stream_bytes,
    )
    return _serve(arguments, "scheduler", lambda stop: run(options, stop))


def run_agent(arguments: argparse.Namespace) -> int:
    """Run jobs until stopped."""
    from rankd.cli.services.agent_enrolment import belonging

    found = belonging(arguments)
    arguments.nats = found.nats
    _need(arguments, "nats")
    import asyncio

    from rankd.services.agent.device_watch import Machine
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
        drain_on_stop_s=arguments.drain_on_stop,
        login_socket=arguments.login_socket,
        machine=None if arguments.no_devices or arguments.simulate else Machine(),
    )
    hurry = asyncio.Event()
    return serve(
        lambda stop: run(options, stop, hurry),
        "agent",
        parent_pid=arguments.parent_pid,
        log_level=arguments.log_level,
        again=hurry,
    )


def _devices(arguments: argparse.Namespace) -> GivenDevices:
    from rankd.services.agent.given_device import GivenDevices, read_file

    of_file = read_file(arguments.devices) if arguments.devices else ()
    return GivenDevices([spec for _, spec in arguments.device], of_file)


def run_gateway(arguments: argparse.Namespace) -> int:
    """Let users in until stopped."""
    _need(arguments, "nats", "creds")
    from rankd.services.gateway.service import GatewayOptions, run

    options = GatewayOptions(
        nats=arguments.nats,
        creds=arguments.creds,
        tls=tls_files(arguments),
        site=arguments.site,
        socket=arguments.socket,
        owner_name=arguments.owner,
        is_shared=arguments.share,
    )
    return _serve(arguments, "gateway", lambda stop: run(options, stop))


def run_notifier(arguments: argparse.Namespace) -> int:
    """Notify until stopped."""
    _need(arguments, "nats", "db")
    from rankd.core.errors import usable
    from rankd.identity.signing_key import open_signing_key
    from rankd.services.notifier.service import NotifierOptions, run

    with usable(arguments.key, "key"):
        arguments.key.parent.mkdir(mode=0o700, exist_ok=True)
        open_signing_key(arguments.key)
    options = NotifierOptions(
        nats=arguments.nats,
        creds=arguments.creds,
        tls=tls_files(arguments),
        db=arguments.db,
        config=_config(arguments),
        key=arguments.key,
    )
    return _serve(arguments, "notifier", lambda stop: run(options, stop))


def _serve(arguments: argparse.Namespace, name: str, main: Main, hangup: asyncio.Event | None = None) -> int:
    return serve(main, name, parent_pid=arguments.parent_pid, log_level=arguments.log_level, hangup=hangup)
