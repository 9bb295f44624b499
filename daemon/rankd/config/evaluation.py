"""The thin shell around ``rankd.core.evaluate``: loads plugins, reads queues, and caches both.

One `Evaluator` serves any number of documents. Sections that they share (the same queues, the same priority settings)
are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml
from msgspec import UNSET

from rankd.config.configuration import Configuration
from rankd.config.plugin import (
    factor_range,
    is_own,
    is_provided,
    load_application_sorts,
    load_factor,
    load_node_sorts,
)
from rankd.config.queues import QueuesRead, read_queue_document
from rankd.core.errors import ConfigurationError, Problem
from rankd.core.evaluate.check import Range
from rankd.core.evaluate.document import Document, JobEntry, decode
from rankd.core.evaluate.evaluate import Given, Surroundings, evaluate, evaluate_ranks
from rankd.core.evaluate.queue_catalogue import QueueCatalogue
from rankd.core.evaluate.result import Ranks, Result, Warned
from rankd.core.model.job import State
from rankd.core.model.queue import Partition
from rankd.core.model.setting import PrioritySettings
from rankd.core.placement.node_table import NodeSortPolicy
from rankd.core.ranking.application_sort import ApplicationSortPolicy
from rankd.core.ranking.factor import Factor
from rankd.plugin.worker_factor import START_S, start_workers

FILE = "queues.yaml"
KEPT = 256
"""This many different sections of a kind are cached."""
WORKERS_KEPT = 8
"""This many factors of other packages are cached."""

_DEFAULT_QUEUES = {"partitions": [{"name": "default", "queues": [{"name": "root", "queues": [{"name": "default"}]}]}]}


class Queues(NamedTuple):
    """A queue tree, the warnings about it, and its sorting policies."""

    catalogue: QueueCatalogue
    warnings: tuple[Warned, ...]
    application_sorts: Mapping[str, ApplicationSortPolicy]
    node_sorts: Mapping[str, NodeSortPolicy]


class Evaluator:
    """Evaluates documents. Missing sections come from ``configuration``, if there is one."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._configuration = configuration
        self._own_queues = _default_queues() if configuration is None else _configured_queues(configuration)
        self._worker = lru_cache(maxsize=WORKERS_KEPT)(_load_worker)

    def evaluate(self, data: bytes) -> Result:
        """The decisions on a document that is given as JSON.

        Raises:
            ConfigurationError: with every problem of the document; paths begin with ``$``.
        """
        document = self._filled(decode(data))
        return evaluate(document, self._surroundings(document))

    def ranks(self, document: Document) -> Ranks:
        """Only the ranks that a document's jobs get: a fraction of the time and memory.

        Raises:
            ConfigurationError: as :meth:`evaluate`.
        """
        filled = self._filled(document)
        return evaluate_ranks(filled, self._surroundings(filled))

    def _surroundings(self, document: Document) -> Surroundings:
        queues = self._queues(document)
        settings = document.priority or PrioritySettings()
        return Surroundings(
            catalogue=queues.catalogue,
            warnings=queues.warnings,
            factors=_factors(document, settings, self._worker),
            ranges=_ranges(document),
            node_sorts=queues.node_sorts,
            application_sorts=queues.application_sorts,
            classes=() if self._configuration is None else self._configuration.classes,
            default_qos=self._default_qos(document),
        )

    def _filled(self, document: Document) -> Document:
        if self._configuration is None:
            return document
        own, settings = self._configuration, self._configuration.settings
        return msgspec.structs.replace(
            document,
            priority=settings.priority if document.priority is None else document.priority,
            scheduling=settings.scheduling if document.scheduling is None else document.scheduling,
            qos=settings.qos if document.qos is None else document.qos,
            associations=list(own.associations) if document.associations is None else document.associations,
            access=own.access if document.access is None else document.access,
            jobs=[_with_groups(job, own.groups) for job in document.jobs] if own.groups else document.jobs,
        )

    def _default_qos(self, document: Document) -> str | None:
        """The configuration's default QoS, if its own QoS are used; a document has no default QoS."""
        configuration = self._configuration
        if configuration is None or document.qos is not configuration.settings.qos:
            return None
        return configuration.settings.default_qos

    def _queues(self, document: Document) -> Queues:
        if document.queues is UNSET or bytes(document.queues) == b"null":
            return self._own_queues
        return _read_queues(bytes(document.queues))


def _with_groups(job: JobEntry, groups: Mapping[str, tuple[str, ...]]) -> JobEntry:
    """A job; if it names no groups, with those of its user."""
    known = groups.get(job.user or "", ())
    return job if job.groups or not known else msgspec.structs.replace(job, groups=list(known))


def _factors(
    document: Document, settings: PrioritySettings, load_worker: Callable[[str, bytes], Factor]
) -> Mapping[str, Factor]:
    """The factors that plugins provide.

    A factor of another package needs a worker, so it is only loaded if a pending job does not give its value.

    Raises:
        ConfigurationError: a plugin can't be used.
    """
    encoded = msgspec.json.encode(settings)
    pending = [job for job in document.jobs if job.state is State.PENDING]
    try:
        found = dict(_load_factors(encoded))
    except ConfigurationError as error:
        raise ConfigurationError([_rooted(problem) for problem in error.problems]) from None
    for name in settings.weights:
        if name not in found and is_provided(name):
            is_given = all(name in job.factors for job in pending)
            found[name] = Given(name) if is_given else load_worker(name, encoded)
    return found


@lru_cache(maxsize=KEPT)
def _load_factors(settings: bytes) -> Mapping[str, Factor]:
    """The factors of rankd itself."""
    priority = msgspec.json.decode(settings, type=PrioritySettings)
    return {name: load_factor(name, priority) for name in priority.weights if is_provided(name) and is_own(name)}


def _load_worker(name: str, settings: bytes) -> Factor:
    factor = load_factor(name, msgspec.json.decode(settings, type=PrioritySettings), is_live=False)
    start_workers([factor], START_S)
    return factor


def _ranges(document: Document) -> Mapping[str, Range]:
    names = {name for job in document.jobs for name in job.factors}
    return {name: factor_range(name) for name in names if is_provided(name)}


@lru_cache(maxsize=KEPT)
def _read_queues(section: bytes) -> Queues:
    try:
        document = msgspec.json.decode(section)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigurationError([Problem(path="$.queues", message=str(error))]) from None
    return _forest(read_queue_document(document, "$.queues"))


@lru_cache(maxsize=1)
def _default_queues() -> Queues:
    return _forest(read_queue_document(_DEFAULT_QUEUES))


def _configured_queues(configuration: Configuration) -> Queues:
    return _queues(configuration.partitions, ())


def _forest(read: QueuesRead) -> Queues:
    warnings = tuple(Warned(code=found.code, message=f"{found.path}: {found.message}") for found in read.warnings)
    return _queues(read.partitions, warnings)


def _queues(partitions: Sequence[Partition], warnings: tuple[Warned, ...]) -> Queues:
    try:
        sorts = load_application_sorts(partitions), load_node_sorts(partitions)
    except ConfigurationError as error:
        raise ConfigurationError([_rooted(problem) for problem in error.problems]) from None
    return Queues(QueueCatalogue.of(partitions), warnings, *sorts)


def _rooted(problem: Problem) -> Problem:
    return problem if problem.path.startswith("$") else Problem(path=f"$.{problem.path}", message=problem.message)


def queues_document(directory: Path) -> object:
    """The content of queues.yaml in a configuration directory, as a document's ``queues``; None without that file."""
    path = directory / FILE
    return parsed_queues(path.read_text(encoding="utf-8") if path.exists() else None)


def parsed_queues(text: str | None) -> object:
    """As :func:`queues_document`, from the file's text."""
    return None if text is None else yaml.safe_load(text) or {}
