"""Plugins by entry points: rankd's own are found the same way as anyone's.

A factor whose class has an attribute ``takes`` is built with what follows a dot in its weight's name: the weight
``resource.gpu`` gives ``Resource(settings, "gpu")`` of the entry point ``resource``.

rankd's own factors are objects of this process. Those of other packages are not even imported here: they run in
workers (:mod:`rankd.plugin`).
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
    """Names of all factors that are installed."""
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
    """Whether it is one of rankd's; no factor that is not installed is."""
    found = _entry_points(FACTORS).get(factor.partition(".")[0])
    return found is not None and found.dist is not None and found.dist.name == OWN


def factor_range(factor: str) -> tuple[float, float]:
    """The lowest and the highest value of an installed factor; of another package's only its worker knows."""
    if not is_own(factor):
        return ANY_VALUE
    kind = _load(FACTORS, factor.partition(".")[0])
    return kind.lowest, kind.highest


def load_factors(settings: PrioritySettings) -> list[Factor]:
    """The factors that have a weight, in the order of the weights.

    Raises:
        ConfigurationError: a plugin is missing; or one of rankd's can't be built.
    """
    return [load_factor(name, settings) for name in settings.weights]


def check_factor(name: str, settings: PrioritySettings) -> None:
    """Load it, in a worker too where it is another package's.

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
    """One factor; another package's with its worker, which is not started yet. ``is_live``: as `WorkerFactor` has it.

    Raises:
        ConfigurationError: as :func:`load_factors`.
    """
    head, dot, argument = name.partition(".")
    if head in _entry_points(FACTORS) and not is_own(name):
        return WorkerFactor(name, _entry_points(FACTORS)[head].value, settings, is_live=is_live)
    kind = _load(FACTORS, head)
    takes = getattr(kind, "takes", None)
    if takes and not argument:
        raise _refusal(name, f"'{head}' needs {takes} behind a dot: {head}.NAME")
    if dot and not takes:
        raise _refusal(name, f"'{head}' takes nothing behind a dot; write '{head}'")
    factor = kind(settings, argument) if takes else kind(settings)
    if not isinstance(factor, Factor) or factor.name != name:
        message = f"{type(factor).__qualname__} does not implement rankd.core.ranking.factor.Factor as '{name}'"
        raise _refusal(name, message)
    return factor


def node_sort_names() -> list[str]:
    """Names of all node sorting policies that are installed."""
    return sorted(_entry_points(NODE_SORT))


def load_node_sorts(partitions: Iterable[Partition]) -> dict[str, NodeSortPolicy]:
    """By name the node sorting policies of these partitions.

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
    """Names of all application sorting policies that are installed."""
    return sorted(_entry_points(APPLICATION_SORT))


def load_application_sorts(partitions: Iterable[Partition]) -> dict[str, ApplicationSortPolicy]:
    """By name the application sorting policies that leaves of these partitions have, or may have.

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
    """By name, the first of each, as of the last :func:`look_again`."""
    return {entry.name: entry for entry in reversed(entry_points(group=group))}


def look_again() -> None:
    """Find packages that were installed since this process looked last; before a configuration is read.

    A module that is imported stays as it is: another version of it needs another process.
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
    except Exception as error:  # a stranger's module may fail in any way
        message = f"{found.value} can't be imported: {type(error).__name__}: {error}"
        raise ConfigurationError([Problem(path=f"plugin {group}", message=message)]) from error


def _no_policy(group: str, policy: object, protocol: str, name: str) -> ConfigurationError:
    message = f"{type(policy).__qualname__} does not implement {protocol} as '{name}'"
    return ConfigurationError([Problem(path=f"plugin {group}", message=message)])


def _refusal(name: str, message: str) -> ConfigurationError:
    return ConfigurationError([Problem(path=f"priority.weights.{name}", message=message)])
