"""The tree of queues, each with its next job."""

from __future__ import annotations

from rankd.core.admission.privacy import seen, sees_all
from rankd.core.admission.submitter import Submitter
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.queue_first import first_of_queues
from rankd.store.look.queue_list import queues
from rankd.store.look.web.look import Given, Look


def _queues(reader: Reader, asker: Submitter, _given: Given) -> list[Row]:
    first = first_of_queues(reader)
    found = list[Row]()
    for row in queues(reader):
        next_job: Row | None = first.get((row["partition"], row["path"]))
        if next_job is not None and not sees_all(asker) and next_job["user"] != asker.user:
            next_job = None if asker.sees == "own" else seen(next_job, asker)
        found.append(row | {"next": next_job})
    return found


QUEUES = Look("queues", list[Row], _queues)
