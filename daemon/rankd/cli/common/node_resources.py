"""The option ``--resources`` of commands that start an agent: what a node offers to jobs."""

from __future__ import annotations

import argparse

from rankd.cli.common.option import key_value

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
