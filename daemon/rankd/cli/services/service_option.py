"""What the commands of services share: their options, the values of these, and how they are started."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from rankd.bus.address import without_secret
from rankd.cli.common.option import add_broker, add_command, add_tls
from rankd.cli.services.process import Main, serve
from rankd.client.pair import key_value
from rankd.core.errors import Refused
from rankd.core.near_name import cut

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from rankd.cli.common.option import Subparsers
    from rankd.services.runtime.metric.address import MetricsAddress
    from rankd.services.runtime.metric.exported import Exported


LARGEST_PORT = 65_535
LARGEST_WHOLE = 2**53
"""The largest priority of a QoS; values of classes and offsets have smaller bounds of their own."""


def add_service(
    subparsers: Subparsers, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    """Add the command of a service, with the options that each service has."""
    parser = add_command(subparsers, name, run, text)
    add_broker(parser, "URL of the broker (default: $RANKD_NATS)", os.environ.get("RANKD_NATS"))
    creds = os.environ.get("RANKD_CREDS")
    parser.add_argument(
        "--creds", metavar="FILE", type=Path, default=creds, help="credentials for the broker (default: $RANKD_CREDS)"
    )
    add_tls(parser)
    add_metrics(parser)
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


def add_metrics(parser: argparse.ArgumentParser) -> None:
    """The option of a process that exports its figures to Prometheus."""
    parser.add_argument(
        "--metrics",
        metavar="[ADDRESS:]PORT",
        type=metrics_address,
        help="serve figures for Prometheus at /metrics of this port, on 127.0.0.1 unless an ADDRESS opens it; port 0: a"
        " free one, which the log names (default: don't)",
    )


def metrics_address(text: str) -> MetricsAddress:
    """``9102``, ``0.0.0.0:9102``."""
    from rankd.services.runtime.metric.address import address_of

    try:
        return address_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_store(parser: argparse.ArgumentParser) -> None:
    """Options of a service that opens the database."""
    parser.add_argument(
        "--db",
        metavar="URL",
        default=os.environ.get("RANKD_DB"),
        help="the database: a file, or postgresql://USER@HOST/NAME (default: $RANKD_DB)",
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


def weight(text: str) -> tuple[str, float]:
    """``age=2000``."""
    name, value = key_value(text)
    try:
        number = float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{value}' is not a number; write {name}=2000") from None
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"'{value}' is not finite; write a finite one, such as {name}=2000")
    return name, number


def whole_value(text: str) -> tuple[str, int]:
    """``high=200``."""
    name, value = key_value(text)
    try:
        number = int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{cut(value)}' is not a whole number; write {name}=200") from None
    if abs(number) > LARGEST_WHOLE:
        raise argparse.ArgumentTypeError(f"'{cut(value)}' is too large; write at most {LARGEST_WHOLE}")
    return name, number


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
    from rankd.bus.wanted_stream import LEAST_STREAM_BYTES
    from rankd.core.model.quantity import parse_amount

    try:
        size = parse_amount("memory", text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if size < LEAST_STREAM_BYTES:
        raise argparse.ArgumentTypeError(f"'{text}' is too little: the streams need {LEAST_STREAM_BYTES // 2**20}Mi")
    return size


def port(text: str) -> int:
    """``4222``; 0 means a free one."""
    if not (text.isascii() and text.isdecimal()) or int(text) > LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"'{text}' is not a port; write a number from 1 to {LARGEST_PORT}, or 0")
    return int(text)


def pairs(text: str) -> dict[str, str]:
    """``vcore=8,memory=16Gi``."""
    return dict(key_value(item) for item in text.split(",") if item)


def need(arguments: argparse.Namespace, *flags: str) -> None:
    """Refuse a command without one of these options.

    Raises:
        Refused: ``usage``; the text is not the URL of a broker.
    """
    for flag in flags:
        if not getattr(arguments, flag):
            raise Refused("usage", f"--{flag} (or $RANKD_{flag.upper()}) is needed", flag)
    without_secret(arguments.nats)  # refuses a text that is not the URL of a broker, before anything is opened


def config_directory(arguments: argparse.Namespace) -> Path:
    """The directory of the configuration that was named, or the one that ships."""
    from rankd.store.schema.migration import shipped

    return arguments.config or shipped("config")


def serve_as(
    arguments: argparse.Namespace,
    name: str,
    main: Callable[[asyncio.Event, Exported], Awaitable[None]],
    *,
    hangup: asyncio.Event | None = None,
    again: asyncio.Event | None = None,
) -> int:
    """Run the service ``name`` until it is stopped; returns the exit status. ``main`` also gets what it exports to."""
    return serve(
        exporting(arguments, name, main),
        name,
        parent_pid=arguments.parent_pid,
        log_level=arguments.log_level,
        hangup=hangup,
        again=again,
    )


def exporting(
    arguments: argparse.Namespace, name: str, main: Callable[[asyncio.Event, Exported], Awaitable[None]]
) -> Main:
    """``main``, with ``/metrics`` beside it if that was asked for.

    Raises:
        Refused: ``not_installed``.
    """
    from rankd.services.runtime.metric.exported import Exported

    exported, address = Exported(name), arguments.metrics
    if address is None:
        return lambda stop: main(stop, exported)
    from rankd.services.runtime.metric.exposition import check_installed
    from rankd.services.runtime.metric.listener import serving

    check_installed()

    async def run(stop: asyncio.Event) -> None:
        async with serving(address, exported):
            await main(stop, exported)

    return run
