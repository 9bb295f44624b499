"""Plugins by entry points: rankd's own are found the same way as anyone's."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from rankd.core.errors import ConfigurationError, Problem
from rankd.core.model.setting import PrioritySettings
from rankd.core.placement.node_table import NodeSortPolicy
from rankd.core.ranking.factor import Factor

FACTORS = "rankd.factors"
NODE_SORT = "rankd.node_sort"


def factor_names() -> list[str]:
    """Names of all factors that are installed."""
    return sorted(entry_points(group=FACTORS).names)


def load_factors(settings: PrioritySettings) -> list[Factor]:
    """The factors that have a weight, in the order of the weights.

    Raises:
        ConfigurationError: a plugin is missing, can't be imported, or does not implement the protocol.
    """
    return [_factor(name, settings) for name in settings.weights]


def _factor(name: str, settings: PrioritySettings) -> Factor:
    factor = _load(FACTORS, name)(settings)
    if not isinstance(factor, Factor) or factor.name != name:
        message = f"{type(factor).__qualname__} does not implement rankd.core.ranking.factor.Factor as '{name}'"
        raise ConfigurationError([Problem(path=f"plugin {name}", message=message)])
    return factor


def load_node_sort(name: str) -> NodeSortPolicy:
    """A node sorting policy.

    Raises:
        ConfigurationError: as :func:`load_factors`.
    """
    policy: NodeSortPolicy = _load(NODE_SORT, name)()
    return policy


def _load(group: str, name: str) -> Any:  # noqa: ANN401 - what a plugin is, its group's protocol says
    found: Sequence[Any] = list(entry_points(group=group, name=name))
    if not found:
        known = ", ".join(sorted(entry_points(group=group).names))
        message = f"no installed package provides '{name}'; known: {known}"
        raise ConfigurationError([Problem(path=f"plugin {group}", message=message)])
    try:
        return found[0].load()
    except Exception as error:  # a stranger's module may fail in any way
        message = f"{found[0].value} can't be imported: {type(error).__name__}: {error}"
        raise ConfigurationError([Problem(path=f"plugin {group}", message=message)]) from error
