"""Plugins by entry points. rankd's own plugins are found in the same way as those of other packages.

A factor whose class has an attribute ``takes`` gets the part after the dot in its weight's name: the weight
``resource.gpu`` makes ``Resource(settings, "gpu")`` of the entry point ``resource``.

rankd's own factors are objects of this process. Those of other packages are not imported here: they run in workers
(:mod:`rankd.plugin`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib import invalidate_caches
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rankd.core.errors import ConfigurationError, Problem
from rankd.core.model.queue import Partition, sort_policies
from rankd.core.model.setting import PrioritySettings
from rankd.core.placement.node_table import NodeSortPolicy
from rankd.core.ranking.application_sort import ApplicationSortPolicy
from rankd.core.ranking.factor import Factor
from rankd.plugin.worker_factor import START_S, WorkerFactor, start_workers, workers_among

OWN = "rankd"
"""The distribution whose plugins run in this process."""

ANY_VALUE = (-sys.float_info.max, sys.float_info.max)

FACTORS = "rankd.factors"
NODE_SORT = "rankd.node_sort"
APPLICATION_SORT = "rankd.application_sort"


def factor_names() -> list[str]:
    """The names of all installed factors."""
    return sorted(_entry_points(FACTORS))


def is_provided(factor: str) -> bool:
    """Whether an installed plugin provides a factor of this name."""
    head, dot, argument = factor.partition(".")
    if head not in _entry_points(FACTORS):
        return False
    if not is_own(factor):
        return not dot or bool(argument)
    takes = getattr(_load(FACTORS, head), "takes", None)
    return bool(argument) if takes else not dot


def is_own(factor: str) -> bool:
    """Whether a factor is one of rankd's own; false if it is not installed."""
    found = _entry_points(FACTORS).get(factor.partition(".")[0])
    return found is not None and found.dist is not None and found.dist.name == OWN


def factor_range(factor: str) -> tuple[float, float]:
    """The lowest and the highest value of an installed factor. For another package's factor, only its worker knows."""
    if not is_own(factor):
        return ANY_VALUE
    kind = _load(FACTORS, factor.partition(".")[0])
    return kind.lowest, kind.highest


def load_factors(settings: PrioritySettings) -> list[Factor]:
    """The factors with a weight, in the order of the weights.

    Raises:
        ConfigurationError: a plugin is missing, or one of rankd's own can't be built.
    """
    return [load_factor(name, settings) for name in settings.weights]


def check_factor(name: str, settings: PrioritySettings) -> None:
    """Load a factor; another package's factor also in a worker.

    Raises:
        ConfigurationError: as :func:`load_factors`; or the factor can't be used.
    """
    factor = load_factor(name, settings, is_live=False)
    start_workers([factor], START_S)
    for worker in workers_among([factor]):
        is_known, message = worker.is_known, worker.counts.message
        worker.close()
        if not is_known:
            raise _refusal(name, message or f"its worker does not start within {START_S:g} s")


def load_factor(name: str, settings: PrioritySettings, *, is_live: bool = True) -> Factor:
    """One factor. Another package's has a worker, which is not started yet. ``is_live`` is as in `WorkerFactor`.

    Raises:
        ConfigurationError: as :func:`load_factors`.
    """
    head, dot, argument = name.partition(".")
    if head in _entry_points(FACTORS) and not is_own(name):
        return WorkerFactor(name, _entry_points(FACTORS)[head].value, settings, is_live=is_live)
    kind = _load(FACTORS, head)
    takes = getattr(kind, "takes", None)
    if takes and not argument:
        raise _refusal(name, f"'{head}' needs {takes} after a dot: {head}.NAME")
    if dot and not takes:
        raise _refusal(name, f"'{head}' allows nothing after a dot; write '{head}'")
    factor = kind(settings, argument) if takes else kind(settings)
    if not isinstance(factor, Factor) or factor.name != name:
        message = f"{type(factor).__qualname__} does not implement rankd.core.ranking.factor.Factor as '{name}'"
        raise _refusal(name, message)
    return factor


def node_sort_names() -> list[str]:
    """The names of all installed node sorting policies."""
    return sorted(_entry_points(NODE_SORT))


def load_node_sorts(partitions: Iterable[Partition]) -> dict[str, NodeSortPolicy]:
    """The node sorting policies of these partitions, by name.

    Raises:
        ConfigurationError: as :func:`load_factors`.
    """
    return {name: load_node_sort(name) for name in sorted({partition.nodesort.type for partition in partitions})}


def load_node_sort(name: str) -> NodeSortPolicy:
    """A node sorting policy.

    Raises:
        ConfigurationError: as :func:`load_factors`.
    """
    policy = _load(NODE_SORT, name)()
    if not isinstance(policy, NodeSortPolicy) or policy.name != name:
        raise _no_policy(NODE_SORT, policy, "rankd.core.placement.node_table.NodeSortPolicy", name)
    return policy


def application_sort_names() -> list[str]:
    """The names of all installed application sorting policies."""
    return sorted(_entry_points(APPLICATION_SORT))


def load_application_sorts(partitions: Iterable[Partition]) -> dict[str, ApplicationSortPolicy]:
    """The application sorting policies that leaves of these partitions have or may get, by name.

    Raises:
        ConfigurationError: as :func:`load_factors`.
    """
    return {name: load_application_sort(name) for name in sorted(sort_policies(partitions))}


def load_application_sort(name: str) -> ApplicationSortPolicy:
    """An application sorting policy.

    Raises:
        ConfigurationError: as :func:`load_factors`.
    """
    policy = _load(APPLICATION_SORT, name)()
    if not isinstance(policy, ApplicationSortPolicy) or policy.name != name:
        raise _no_policy(APPLICATION_SORT, policy, "rankd.core.ranking.application_sort.ApplicationSortPolicy", name)
    return policy


@cache
def _entry_points(group: str) -> dict[str, EntryPoint]:
    """Entry points by name, as of the last :func:`look_again`. If a name is there twice, the first one counts."""
    return {entry.name: entry for entry in reversed(tuple(entry_points(group=group)))}


def look_again() -> None:
    """Find packages that were installed since the last look. Called before a configuration is read.

    An imported module stays as it is: another version of it needs a new process.
    """
    invalidate_caches()
    _entry_points.cache_clear()


def _load(group: str, name: str) -> Any:  # noqa: ANN401 - what a plugin is, its group's protocol says
    found = _entry_points(group).get(name)
    if found is None:
        known = ", ".join(sorted(_entry_points(group)))
        message = f"no installed package provides '{name}'; known: {known}"
        raise ConfigurationError([Problem(path=f"plugin {group}", message=message)])
    try:
        return found.load()
    except Exception as error:  # another package's module may fail in any way
        message = f"{found.value} can't be imported: {type(error).__name__}: {error}"
        raise ConfigurationError([Problem(path=f"plugin {group}", message=message)]) from error


def _no_policy(group: str, policy: object, protocol: str, name: str) -> ConfigurationError:
    message = f"{type(policy).__qualname__} does not implement {protocol} as '{name}'"
    return ConfigurationError([Problem(path=f"plugin {group}", message=message)])


def _refusal(name: str, message: str) -> ConfigurationError:
    return ConfigurationError([Problem(path=f"priority.weights.{name}", message=message)])
