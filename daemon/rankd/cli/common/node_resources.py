"""The option ``--resources`` of commands that start an agent: what a node offers to jobs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rankd.client.pair import key_value

if TYPE_CHECKING:
    from rankd.services.agent.given_device import DeviceSpec

VCORE = "vcore"
OTHER_WORDS = {
    "cpu": VCORE,
    "cpus": VCORE,
    "core": VCORE,
    "cores": VCORE,
    "mem": "memory",
    "ram": "memory",
    "gpus": "gpu",
}
"""Other programs' names for resources. A job asks for ours, so a node that offers these could not hold it."""


def node_resources(text: str) -> dict[str, str]:
    """The amounts by resource. Every job needs cores, so a node without vcore could hold none.

    >>> node_resources("vcore=8,memory=16Gi")
    {'vcore': '8', 'memory': '16Gi'}
    """
    found = dict(key_value(item) for item in text.split(",") if item)
    for name, amount in found.items():
        if (ours := OTHER_WORDS.get(name.lower())) is not None:
            raise argparse.ArgumentTypeError(f"the resource '{name}' is called {ours}; write {ours}={amount}")
    if VCORE not in found:
        raise argparse.ArgumentTypeError(f"'{text}' has no vcore, so no job could run there; write vcore=8,…")
    return found


def add_devices(parser: argparse.ArgumentParser, whose: str) -> None:
    """Add ``--device``. Each value is stored with its text."""
    parser.add_argument(
        "--device",
        action="append",
        type=device_spec,
        default=[],
        metavar="gpu:MODEL:N",
        help=f"{whose} has N made-up devices of this model, such as gpu:a100:4; may be repeated",
    )


def device_spec(text: str) -> tuple[str, DeviceSpec]:
    """The text, and what it says."""
    from rankd.services.agent.given_device import parse_spec

    try:
        return text, parse_spec(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
