"""A configuration that services can use: its files are consistent, and the plugins that they name can be loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from rankd.config.adapter import load_adapter
from rankd.config.configuration import Configuration, read_configuration, read_files
from rankd.config.plugin import check_factor, load_application_sort, load_factor, load_node_sort
from rankd.config.settings import FILE as SETTINGS
from rankd.config.settings import readable_adapters
from rankd.core.errors import ConfigurationError, Problem
from rankd.core.model.queue import sort_policies
from rankd.core.model.setting import PrioritySettings

NO_PARTITION = (
    "the file defines no partition, so users could not submit jobs; add a partition with a queue,"
    " or remove the file to get the queue root.default"
)

CheckFactor = Callable[[str, PrioritySettings], object]


def load_checked(directory: Path) -> Configuration:
    """Read and check a directory.

    Raises:
        ConfigurationError: with the problems of all files and adapters. If there are none, with those of all plugins.
    """
    texts, unreadable = read_files(directory)
    return read_checked(str(directory), texts, unreadable)


def read_checked(
    directory: str, texts: Mapping[str, str], unreadable: Sequence[Problem] = (), *, workers: bool = True
) -> Configuration:
    """As :func:`load_checked`, from the files' texts. Without ``workers``, other packages' factors are not run.

    Raises:
        ConfigurationError: as :func:`load_checked`.
    """
    try:
        configuration = read_configuration(directory, texts, unreadable)
    except ConfigurationError as error:
        adapters = readable_adapters(texts.get(SETTINGS, ""))
        more = [problem for one in adapters for problem in _problems(partial(load_adapter, one, directory))]
        raise ConfigurationError([*error.problems, *more]) from None
    loads = _plugins(configuration, check_factor if workers else load_factor)
    problems = [problem for load in loads for problem in _problems(load)]
    if not configuration.partitions:  # valid, but most likely a user is just writing the file
        problems.append(Problem(file="queues.yaml", path="partitions", message=NO_PARTITION))
    if problems:
        raise ConfigurationError(problems)
    return configuration


def _plugins(configuration: Configuration, check: CheckFactor) -> Iterator[Callable[[], object]]:
    """For each plugin, a function that loads it."""
    priority, partitions = configuration.settings.priority, configuration.partitions
    for factor in priority.weights:
        yield partial(check, factor, priority)
    for node_sort in sorted({partition.nodesort.type for partition in partitions}):
        yield partial(load_node_sort, node_sort)
    for application_sort in sorted(sort_policies(partitions)):
        yield partial(load_application_sort, application_sort)
    for adapter in configuration.settings.adapters:
        yield partial(load_adapter, adapter, configuration.directory)


def _problems(load: Callable[[], object]) -> list[Problem]:
    try:
        load()
    except ConfigurationError as error:
        return error.problems
    return []
