"""``rankd intake``, ``prioritizer``, ``scheduler``, ``gateway``, ``notifier``, ``forecaster``: one service each."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.cli.common.option import tls_files
from rankd.cli.services.service_option import add_service, add_store, config_directory, need, serve_as, weight

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers
    from rankd.core.admission.runnable_user import LocalRights


def add_parser(subparsers: Subparsers) -> None:
    """Add them all."""
    _add_intake(subparsers)
    _add_prioritizer(subparsers)
    scheduler = add_service(subparsers, "scheduler", run_scheduler, "Start jobs in the order of the ranking.")
    add_store(scheduler)
    forecaster = add_service(subparsers, "forecaster", run_forecaster, "Say when pending jobs will start.")
    add_store(forecaster)
    _add_gateway(subparsers)
    _add_notifier(subparsers)


def _add_intake(subparsers: Subparsers) -> None:
    intake = add_service(
        subparsers, "intake", run_intake, "Accept requests of users and nodes, record them, and answer."
    )
    add_store(intake)
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


def _add_prioritizer(subparsers: Subparsers) -> None:
    prioritizer = add_service(
        subparsers, "prioritizer", run_prioritizer, "Rank the pending jobs, again after every change."
    )
    add_store(prioritizer)
    prioritizer.add_argument(
        "--weight",
        action="append",
        type=weight,
        default=[],
        metavar="FACTOR=N",
        help="override one weight of the configuration; may be repeated",
    )


def _add_gateway(subparsers: Subparsers) -> None:
    gateway = add_service(subparsers, "gateway", run_gateway, "Let users of this machine ask as themselves.")
    gateway.add_argument(
        "--site", metavar="DIR", type=Path, required=True, help="directory of the site's secret (auth/ of `rankd up`)"
    )
    gateway.add_argument("--socket", metavar="FILE", type=Path, required=True, help="the Unix socket to listen on")
    gateway.add_argument("--owner", metavar="USER", required=True, help="the administrator's name: of who runs this")
    gateway.add_argument("--share", action="store_true", help="let other users of this machine in, as themselves")


def _add_notifier(subparsers: Subparsers) -> None:
    notifier = add_service(
        subparsers, "notifier", run_notifier, "Notify users of their jobs, where the configuration allows it."
    )
    add_store(notifier)
    notifier.add_argument(
        "--key",
        metavar="FILE",
        type=Path,
        required=True,
        help="file with the key for signatures (auth/notify.key of `rankd up`); made if it is missing",
    )


def run_intake(arguments: argparse.Namespace) -> int:
    """Serve until stopped."""
    need(arguments, "nats", "db")
    import asyncio

    from rankd.services.intake.service import IntakeOptions, run

    options = IntakeOptions(
        nats=arguments.nats,
        creds=arguments.creds,
        tls=tls_files(arguments),
        db=arguments.db,
        config=config_directory(arguments),
        stream_bytes=arguments.stream_bytes,
        local=_local_rights(arguments),
    )
    hangup = asyncio.Event()
    main = lambda stop, exported: run(options, stop, hangup, exported=exported)  # noqa: E731 - a closure over options
    return serve_as(arguments, "intake", main, hangup=hangup)


def _local_rights(arguments: argparse.Namespace) -> LocalRights | None:
    from rankd.core.admission.runnable_user import LocalRights

    if arguments.run_as != "submitter":
        return None
    return LocalRights(arguments.owner or "", is_root=os.geteuid() == 0 or arguments.owner is None)


def run_prioritizer(arguments: argparse.Namespace) -> int:
    """Rank until stopped."""
    need(arguments, "nats", "db")
    from rankd.services.prioritizer.service import PrioritizerOptions, run

    options = PrioritizerOptions(
        nats=arguments.nats,
        creds=arguments.creds,
        tls=tls_files(arguments),
        db=arguments.db,
        config=config_directory(arguments),
        weights=dict(arguments.weight),
        stream_bytes=arguments.stream_bytes,
    )
    return serve_as(arguments, "prioritizer", lambda stop, exported: run(options, stop, exported=exported))


def run_scheduler(arguments: argparse.Namespace) -> int:
    """Schedule until stopped."""
    need(arguments, "nats", "db")
    from rankd.services.scheduler.service import SchedulerOptions, run

    options = SchedulerOptions(
        nats=arguments.nats,
        creds=arguments.creds,
        tls=tls_files(arguments),
        db=arguments.db,
        config=config_directory(arguments),
        stream_bytes=arguments.stream_bytes,
    )
    return serve_as(arguments, "scheduler", lambda stop, exported: run(options, stop, exported=exported))


def run_forecaster(arguments: argparse.Namespace) -> int:
    """Forecast until stopped."""
    need(arguments, "nats", "db")
    from rankd.services.forecaster.service import NICE, ForecasterOptions, run

    os.nice(NICE)
    options = ForecasterOptions(
        nats=arguments.nats,
        creds=arguments.creds,
        tls=tls_files(arguments),
        db=arguments.db,
        config=config_directory(arguments),
    )
    return serve_as(arguments, "forecaster", lambda stop, exported: run(options, stop, exported=exported))


def run_gateway(arguments: argparse.Namespace) -> int:
    """Let users in until stopped."""
    need(arguments, "nats", "creds")
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
    return serve_as(arguments, "gateway", lambda stop, exported: run(options, stop, exported=exported))


def run_notifier(arguments: argparse.Namespace) -> int:
    """Notify until stopped."""
    need(arguments, "nats", "db")
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
        config=config_directory(arguments),
        key=arguments.key,
    )
    return serve_as(arguments, "notifier", lambda stop, exported: run(options, stop, exported=exported))
