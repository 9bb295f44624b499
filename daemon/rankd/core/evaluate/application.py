"""The applications of a document: those that it lists, and those that only its jobs name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from rankd.core.errors import Problem
from rankd.core.evaluate.admission import Job
from rankd.core.evaluate.amount import read_amounts
from rankd.core.evaluate.document import ApplicationEntry, Document, Id
from rankd.core.evaluate.eligibility import submitted_at
from rankd.core.evaluate.queue_catalogue import QueueCatalogue
from rankd.core.model.quantity import Resources
from rankd.core.model.queue import DEFAULT_QUEUE
from rankd.core.ranking.application_order import RUNNING
from rankd.core.ranking.columns import NO_GROUP
from rankd.core.ranking.order import Applications

STATES = frozenset(
    {
        "new", "accepted", "starting", "running", "resuming", "completing", "completed", "failing", "failed",
        "rejected", "expired",
    }
)  # fmt: skip
"""YuniKorn's states, in lower case."""

ApplicationKey = tuple[int, Id]
"""An application: its leaf queue and its id."""


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """An application. ``used`` and ``pending`` are the document's own values; None means the sum of its jobs."""

    id: Id
    queue: int
    created_at: float
    state: str = RUNNING
    used: Resources | None = None
    pending: Resources | None = None


class ApplicationBook(msgspec.Struct, frozen=True):
    """All applications, and the index of each."""

    applications: list[Application]
    places: dict[ApplicationKey, int]

    def place_of(self, job: Job) -> int:
        """The index of the job's application; -1 if the job has none."""
        if job.entry.application is None:
            return NO_GROUP
        return self.places[job.queue, job.entry.application]

    def ranked(self, used: Mapping[int, Resources]) -> Applications:
        """The applications for the ranking. ``used``: amounts by the application's index."""
        by_id = sorted(range(len(self.applications)), key=lambda place: _id_key(self.applications[place].id))
        id_places = np.empty(len(by_id), dtype=np.int64)
        id_places[by_id] = np.arange(len(by_id))
        listed = self.applications
        return Applications(
            created_at=np.array([application.created_at for application in listed], dtype=np.float64),
            id_places=id_places,
            queues=np.array([application.queue for application in listed], dtype=np.int64),
            used=used,
            states={place: row.state for place, row in enumerate(listed) if row.state != RUNNING},
            pending={place: row.pending for place, row in enumerate(listed) if row.pending},
        )


def _id_key(id_: Id) -> tuple[bool, int, str]:
    """A sort key: numbers in their order, then texts in their order."""
    return (False, id_, "") if isinstance(id_, int) else (True, 0, id_)


def read_applications(
    document: Document, catalogue: QueueCatalogue, jobs: Sequence[Job], problems: list[Problem]
) -> ApplicationBook:
    """The applications of the document and of these jobs. Errors are added to ``problems``."""
    book = ApplicationBook([], {})
    created = _first_submissions(jobs, document.now)
    for place, entry in enumerate(document.applications):
        key = (_queue_of(entry, place, catalogue, problems), entry.id)
        if key in book.places:
            message = f"'{entry.id}' is listed twice in its queue; remove one"
            problems.append(Problem(path=f"$.applications[{place}].id", message=message))
        book.places[key] = len(book.applications)
        book.applications.append(_application(entry, place, key[0], created.get(key, document.now), problems))
    for key, at in created.items():
        if key not in book.places:
            book.places[key] = len(book.applications)
            book.applications.append(Application(id=key[1], queue=key[0], created_at=at))
    return book


def _first_submissions(jobs: Sequence[Job], now: float) -> dict[ApplicationKey, float]:
    first: dict[ApplicationKey, float] = {}
    for job in jobs:
        if job.entry.application is not None:
            key = (job.queue, job.entry.application)
            first[key] = min(submitted_at(job.entry, now), first.get(key, math.inf))
    return first


def _queue_of(entry: ApplicationEntry, place: int, catalogue: QueueCatalogue, problems: list[Problem]) -> int:
    wanted = entry.queue or DEFAULT_QUEUE
    queue = catalogue.find(wanted, None if entry.partition is None else (entry.partition,))
    if queue is not None and queue.is_leaf:
        return catalogue.id_of(queue)
    where = "" if entry.partition is None else f" of the partition '{entry.partition}'"
    message = f"'{wanted}' is not a leaf queue{where}; give a leaf queue of the section queues"
    problems.append(Problem(path=f"$.applications[{place}].queue", message=message))
    return NO_GROUP


def _application(
    entry: ApplicationEntry, place: int, queue: int, created_at: float, problems: list[Problem]
) -> Application:
    path, state = f"$.applications[{place}]", entry.state.lower()
    if state not in STATES:
        message = f"unknown state '{entry.state}'; known: {', '.join(sorted(STATES))}"
        problems.append(Problem(path=f"{path}.state", message=message))
    return Application(
        id=entry.id,
        queue=queue,
        created_at=created_at if entry.created_at is None else entry.created_at,
        state=state,
        used=None if entry.used is None else read_amounts(entry.used, f"{path}.used", problems),
        pending=None if entry.pending is None else read_amounts(entry.pending, f"{path}.pending", problems),
    )
