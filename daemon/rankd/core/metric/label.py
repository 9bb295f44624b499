"""Values of labels: each metric has a bounded number of them, whatever names users choose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rankd.core.metric.figure import Figure
from rankd.core.printable import printable

LONGEST = 100
"""Characters of a value of a label. A longer one is cut."""
MOST = 50
"""Different values of a label that come from names: queues, adapters, factors, streams, targets, verbs."""
OTHER = "(other)"
"""The value for all further ones together. Neither users nor queues can have this name."""


def label(text: str) -> str:
    r"""A name as the value of a label: printable, and not too long.

    >>> label("a\nb")
    'a\\nb'
    """
    return printable(text)[:LONGEST]


def bounded(amounts: Mapping[str, float], most: int = MOST) -> dict[str, float]:
    """The ``most`` largest amounts by name, and the sum of the others as :data:`OTHER`. Ties: by name.

    >>> bounded({"a": 1, "b": 3, "c": 2}, 2)
    {'b': 3, 'c': 2, '(other)': 1}
    """
    ordered = sorted(amounts.items(), key=lambda item: (-item[1], item[0]))
    shown = {label(name): amount for name, amount in ordered[:most]}
    if rest := sum(amount for _, amount in ordered[most:]):
        shown[OTHER] = shown.get(OTHER, 0) + rest
    return shown


def together(name: str, rows: Iterable[tuple[tuple[str, ...], float]], place: int, most: int = MOST) -> list[Figure]:
    """Figures of a metric, whose label at ``place`` has at most ``most`` values and :data:`OTHER`.

    ``rows``: values of all labels, and the amount. The names with the largest amounts are kept.
    """
    rows = list(rows)
    totals = defaultdict[str, float](float)
    for labels, amount in rows:
        totals[labels[place]] += amount
    kept = sorted(totals, key=lambda one: (-totals[one], one))[:most]
    sums = defaultdict[tuple[str, ...], float](float)
    for labels, amount in rows:
        found = [label(text) for text in labels]
        if labels[place] not in kept:
            found[place] = OTHER
        sums[tuple(found)] += amount
    return [Figure(name, amount, labels) for labels, amount in sums.items()]
