"""Limits of a node's registration: its amounts, labels and names."""

from __future__ import annotations

from collections.abc import Mapping

from rankd.core.errors import Refused
from rankd.core.model.quantity import Amount, Resources, check_node_amount, parse_resources
from rankd.core.near_name import cut
from rankd.core.placement.constraint import NODE

MAX_KINDS = 64
MAX_LABELS = 256
MAX_LABEL_KEY = 317
MAX_LABEL_VALUE = 63
MAX_RUNNING = 100_000
MAX_NAME = 253
SEPARATORS = ",[]"
"""The characters with a meaning in a list of nodes."""


def check_name(name: str, field: str) -> None:
    """Check the name of a node, partition, agent or resource type.

    Raises:
        Refused: ``bad_name``.
    """
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        message = f"{field} is '{cut(name)!r}' ({len(name)} characters); give 1 to {MAX_NAME} printable characters"
        raise Refused("bad_name", message, field)


def check_node_name(name: str) -> None:
    """Check the name of a node. It must not contain a character with a meaning in a list of nodes (``n[01-08],login``).

    Raises:
        Refused: ``bad_name``.
    """
    check_name(name, "node")
    if set(name) & set(SEPARATORS):
        message = f"node is '{name}'; a node's name can't contain {' '.join(SEPARATORS)}, because node lists use them"
        raise Refused("bad_name", message, "node")


def node_capacity(resources: Mapping[str, Amount]) -> Resources:
    """The amounts of a node.

    Raises:
        Refused: ``too_many``, ``bad_name``, ``bad_quantity``.
    """
    _check_number("resources", len(resources), MAX_KINDS, "types")
    for kind in resources:
        check_name(kind, "resources")
    capacity = parse_resources(resources)
    for kind, amount in capacity.items():
        try:
            check_node_amount(kind, amount)
        except ValueError as error:
            raise Refused("bad_quantity", f"{kind}: {error}", f"resources.{kind}") from None
    return capacity


def check_labels(labels: Mapping[str, str]) -> None:
    """Check the number of labels, and their lengths. The longest lengths are those of Kubernetes.

    Raises:
        Refused: ``too_many``, ``bad_label``.
    """
    _check_number("labels", len(labels), MAX_LABELS, "labels")
    for key, value in labels.items():
        if key == NODE:
            raise Refused("bad_label", f"the label '{NODE}' is the node's own name; leave it out", "labels")
        if not 0 < len(key) <= MAX_LABEL_KEY or len(value) > MAX_LABEL_VALUE:
            message = (
                f"the label '{cut(key)}={cut(value)}' is too long; a key has 1 to {MAX_LABEL_KEY} characters, "
                f"a value at most {MAX_LABEL_VALUE}"
            )
            raise Refused("bad_label", message, "labels")


def check_running(running: int) -> None:
    """Check the number of allocations that a node reports as running.

    Raises:
        Refused: ``too_many``.
    """
    _check_number("running", running, MAX_RUNNING, "allocations")


def _check_number(field: str, number: int, most: int, what: str) -> None:
    if number > most:
        raise Refused("too_many", f"the node has {number} {what}, {most} are allowed", field)
