"""The used and pending amounts of a document's queues and applications: the sums of jobs, or the document's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankd.core.errors import Problem
from rankd.core.evaluate.admission import Job
from rankd.core.evaluate.amount import add, read_amounts
from rankd.core.evaluate.application import ApplicationBook
from rankd.core.evaluate.document import Document
from rankd.core.evaluate.inventory import Held
from rankd.core.evaluate.queue_catalogue import QueueCatalogue
from rankd.core.model.quantity import Resources, scaled
from rankd.core.ranking.columns import NO_GROUP


def read_stated(document: Document, catalogue: QueueCatalogue, problems: list[Problem]) -> dict[int, Resources]:
    """The amounts that queues of the first partition use, from the document's section ``used``, by queue id."""
    stated: dict[int, Resources] = {}
    for path, amounts in document.used.items():
        queue = catalogue.find(path, catalogue.names[:1])
        if queue is None:
            problems.append(Problem(path=f"$.used.{path}", message=f"unknown queue '{path}'; correct the path"))
        else:
            stated[catalogue.id_of(queue)] = read_amounts(amounts, f"$.used.{path}", problems)
    return stated


def used_by_application(held: Sequence[Held], book: ApplicationBook) -> dict[int, Resources]:
    """The used amounts by the application's index, without applications that use nothing."""
    used: dict[int, Resources] = {}
    for hold in held:
        place = book.place_of(hold.job)
        if place != NO_GROUP:
            add(used.setdefault(place, {}), hold.resources)
    stated = {place: row.used for place, row in enumerate(book.applications) if row.used is not None}
    return used | stated


def used_by_leaf(held: Sequence[Held], book: ApplicationBook, used: Mapping[int, Resources]) -> dict[int, Resources]:
    """The used amounts by leaf: of its applications (``used``), and of its jobs without an application."""
    sums: dict[int, Resources] = {}
    for place, amounts in used.items():
        add(sums.setdefault(book.applications[place].queue, {}), amounts)
    for hold in held:
        if hold.job.entry.application is None:
            add(sums.setdefault(hold.job.queue, {}), hold.resources)
    return sums


def with_stated(
    of_leaves: Mapping[int, Resources], stated: Mapping[int, Resources], parents: Mapping[int, int | None]
) -> dict[int, Resources]:
    """The amounts that each queue uses itself, without its children. With its children, a queue has its stated amount.

    If the stated amount of a parent is smaller than the sum of its children, its own amount is negative. ``parents``
    has every queue, parents before children.
    """
    if not stated:
        return dict(of_leaves)
    own = {queue: dict(amounts) for queue, amounts in of_leaves.items()}
    sums = {queue: dict(own.get(queue, {})) for queue in parents}
    for queue in reversed(list(parents)):
        if queue in stated:
            rest = {kind: -amount for kind, amount in sums[queue].items()}
            add(rest, stated[queue])
            add(own.setdefault(queue, {}), rest)
            sums[queue] = dict(stated[queue])
        parent = parents[queue]
        if parent is not None:
            add(sums[parent], sums[queue])
    return own


def stated_pending(eligible: Sequence[Job], book: ApplicationBook) -> dict[int, Resources]:
    """The pending amounts of leaves with at least one application whose ``pending`` is stated, by leaf."""
    stated = {place: row for place, row in enumerate(book.applications) if row.pending is not None}
    sums: dict[int, Resources] = {row.queue: {} for row in stated.values()}
    for row in stated.values():
        add(sums[row.queue], row.pending or {})
    for job in eligible:
        if job.queue in sums and book.place_of(job) not in stated:
            add(sums[job.queue], scaled(job.resources, job.entry.nodes))
    return sums
