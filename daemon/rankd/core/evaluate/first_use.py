"""Queues that the jobs of a document make on first use, as their submission would make them in the daemon.

A queue is made for an accepted job, or for a listed application. Queues that only refused jobs name are not made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rankd.core.admission.queue_entry import find_queue, made_queue
from rankd.core.errors import Refused
from rankd.core.evaluate.admission import Admitted, Rules, admit_jobs
from rankd.core.evaluate.document import ApplicationEntry, Document, JobEntry
from rankd.core.evaluate.queue_catalogue import QueueCatalogue
from rankd.core.model.job import ACTIVE_STATES, State
from rankd.core.model.queue import DEFAULT_QUEUE


def admit_making_queues(
    document: Document, catalogue: QueueCatalogue, rules_of: Callable[[QueueCatalogue], Rules]
) -> tuple[QueueCatalogue, Admitted]:
    """The catalogue with the queues that are made, and the result of the jobs' admission."""
    possible, made = _with_all(document, catalogue)
    admitted = admit_jobs(document.jobs, rules_of(possible))
    if not made:
        return catalogue, admitted
    keys = list(possible.ids)
    used = {keys[job.queue] for job in (*admitted.pending, *admitted.active)} | _of_applications(document, possible)
    if used.issuperset(made):
        return possible, admitted
    needed = catalogue.with_made(path for key, path in made.items() if key in used)
    return needed, admit_jobs(document.jobs, rules_of(needed))


def _with_all(
    document: Document, catalogue: QueueCatalogue
) -> tuple[QueueCatalogue, dict[tuple[str, str], tuple[str, str]]]:
    """The catalogue if all jobs were accepted, and its new leaves: (partition, path) by key."""
    made: dict[tuple[str, str], tuple[str, str]] = {}
    if all(entry.below is None for entry in catalogue.entries.values()):
        return catalogue, made
    grown = catalogue
    for wanted, partitions in _wanted(document, catalogue):
        if find_queue(wanted, partitions, grown.entries) is None:
            try:
                entry = made_queue(wanted, partitions, grown.entries)
            except Refused:
                continue
            if entry is not None:
                made[entry.partition, entry.path.lower()] = (entry.partition, entry.path)
                grown = grown.with_made([(entry.partition, entry.path)])
    return grown, made


def _wanted(document: Document, catalogue: QueueCatalogue) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The queues that jobs and applications name, without duplicates, each with the partitions to search."""
    named: dict[tuple[str, tuple[str, ...]], None] = {}
    for job in document.jobs:
        if job.state is State.PENDING or job.state in ACTIVE_STATES:
            named[job.queue or DEFAULT_QUEUE, _partitions(job, catalogue)] = None
    for application in document.applications:
        named[application.queue or DEFAULT_QUEUE, _partitions(application, catalogue)] = None
    yield from named


def _partitions(named: JobEntry | ApplicationEntry, catalogue: QueueCatalogue) -> tuple[str, ...]:
    return catalogue.names if named.partition is None else (named.partition,)


def _of_applications(document: Document, catalogue: QueueCatalogue) -> set[tuple[str, str]]:
    found = (catalogue.find(a.queue or DEFAULT_QUEUE, _partitions(a, catalogue)) for a in document.applications)
    return {(entry.partition, entry.path.lower()) for entry in found if entry is not None}
