"""A job: all about it, why it has its rank, and whether it has ended."""

from __future__ import annotations

from typing import NamedTuple

from rankd.core.admission.privacy import seen
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.array import parse_name
from rankd.core.model.job import FINAL_STATES, State
from rankd.core.model.wait_word import WAITED
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.array_grid import ArrayGrid, array_grid
from rankd.store.look.as_asker import check_sees, job_shown_to, why_for
from rankd.store.look.job_runs import job_runs
from rankd.store.look.page import event_page
from rankd.store.look.service_list import role_holders
from rankd.store.look.start_range import start_range
from rankd.store.look.web.look import Given, Look
from rankd.wire.job_selection import JobName
from rankd.wire.page import HistoryRequest

EVENTS = 500


class JobShown(NamedTuple):
    """``why``, ``start`` and ``services``: of jobs that wait. ``grid``: of arrays. ``waited``: seconds by cause."""

    job: Row
    why: Row | None
    start: Row | None
    events: list[Row]
    waited: list[tuple[str, float]]
    services: list[Row]
    grid: ArrayGrid | None


def name_in(given: Given) -> JobName:
    """The job of the address.

    Raises:
        Refused: ``bad_job_id``.
    """
    text = given.get("id", "")
    parse_name(text)
    return int(text) if text.isascii() and text.isdecimal() else text


def _job(reader: Reader, asker: Submitter, given: Given) -> JobShown:
    name = name_in(given)
    check_sees(reader, name, asker, "job.show")
    record = job_shown_to(reader, name, asker)
    if asker.sees != "own":
        record = seen(record, asker)
    is_waiting = record["state"] == State.PENDING
    why = why_for(reader, name, asker) if is_waiting else None
    waited = record if why is None else why  # of a job that waits, until now
    return JobShown(
        record,
        why,
        start_range(reader, name) if is_waiting else None,
        list(event_page(reader, HistoryRequest(id=name, limit=EVENTS)).rows),
        [(words, waited[column]) for column, words in WAITED.items() if waited.get(column) is not None],
        role_holders(reader) if is_waiting else [],
        array_grid(reader, record["id"]) if record.get("array_task") is None else None,
    )


def _why(reader: Reader, asker: Submitter, given: Given) -> Row:
    name = name_in(given)
    check_sees(reader, name, asker, "job.why")
    return why_for(reader, name, asker)


def _forms(reader: Reader, asker: Submitter, given: Given) -> Row:
    name = name_in(given)
    check_sees(reader, name, asker, "job.show")
    found = job_shown_to(reader, name, asker)
    if found["user"] != asker.user and asker.sees != "all":
        raise Refused("not_owner", "this job belongs to another user", status=403)
    return found


def _is_over(reader: Reader, asker: Submitter, given: Given) -> bool:
    name = name_in(given)
    check_sees(reader, name, asker, "job.show")
    return job_runs(reader, name).state in FINAL_STATES


JOB = Look("job", JobShown, _job)
WHY = Look("why", Row, _why)
FORMS = Look("forms", Row, _forms)
IS_OVER = Look("over", bool, _is_over)
