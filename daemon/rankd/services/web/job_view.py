"""A job: why it is where it is, in words and numbers; its history; its tasks, if it is an array."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from rankd.core.admission.privacy import Row, seen
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.array import parse_name
from rankd.core.model.job import State
from rankd.core.model.wait_word import WAITED
from rankd.core.words import DECISIONS, OVERRIDES
from rankd.services.web.bar import extent
from rankd.services.web.page import Page
from rankd.services.web.rank_history import rank_chart
from rankd.services.web.silence import silent
from rankd.services.web.time_line import attempts, time_line
from rankd.services.web.view import Given
from rankd.store.engine.reading import Reader
from rankd.store.look.array_grid import array_grid
from rankd.store.look.as_asker import check_sees, job_shown_to, why_for
from rankd.store.look.page import event_page
from rankd.store.look.service_list import role_holders
from rankd.store.look.start_range import start_range
from rankd.wire.job_selection import JobName
from rankd.wire.page import HistoryRequest

LOG_FIELDS: tuple[str, ...] = ("stream", "attempt", "node")
EVENTS = 500
ATTEMPTS = 50
"""The last attempts, which are listed."""
SIDES = (("above", "Just above"), ("above_other", "The next above of another user"), ("below", "Just below"))


def name_in(given: Given) -> JobName:
    """The job of the address.

    Raises:
        Refused: ``bad_job_id``.
    """
    text = given["id"]
    parse_name(text)
    return int(text) if text.isascii() and text.isdecimal() else text


async def job(page: Page, asker: Submitter, given: Given) -> str:
    """All about one job."""
    found = await page.look(lambda reader: _read(reader, name_in(given), asker))
    why, now = found["why"], page.clock()
    bars = extent([why] if why and why.get("factors") else [])
    line = time_line(found["events"], now)
    rank = None if why is None else why.get("rank")
    return page.template.render(
        "_job.html", **found, silent=silent(found["services"], now), line=line, overrides=OVERRIDES, between=bars,
        attempts=attempts(found["events"], line), sides=_sides(why), most_attempts=ATTEMPTS,
        ranks=rank_chart(page.ranks, found["job"]["id"], rank, now),
    )  # fmt: skip


async def why(page: Page, asker: Submitter, given: Given) -> str:
    """What separates a job from its neighbours, for the panel of the queue."""
    name = name_in(given)

    def read(reader: Reader) -> Row:
        check_sees(reader, name, asker, "job.why")
        return why_for(reader, name, asker)

    found = await page.look(read)
    return page.template.render(
        "_why.html",
        why=found,
        sides=_sides(found),
        overrides=OVERRIDES,
        between=extent([found] if found.get("factors") else []),
    )


def _read(reader: Reader, name: JobName, asker: Submitter) -> dict[str, Any]:
    check_sees(reader, name, asker, "job.show")
    record = (
        seen(job_shown_to(reader, name, asker), asker) if asker.sees != "own" else job_shown_to(reader, name, asker)
    )
    is_waiting = record["state"] == State.PENDING
    events = list(event_page(reader, HistoryRequest(id=name, limit=EVENTS)).rows)
    return {
        "job": record,
        "why": why_for(reader, name, asker) if is_waiting else None,
        "start": start_range(reader, name) if is_waiting else None,
        "events": events,
        "waited": [(words, record[name]) for name, words in WAITED.items() if record.get(name) is not None],
        "services": role_holders(reader) if is_waiting else [],
        "grid": array_grid(reader, record["id"]) if record.get("array_task") is None else None,
    }


def _sides(why: Row | None) -> list[dict[str, Any]]:
    """The neighbours of a job in the ranking, each with why one of the two goes first."""
    found = list[dict[str, Any]]()
    for side, words in SIDES:
        other = None if why is None else why.get(side)
        if why is None or other is None or other.get("gone"):
            continue
        first = why if side == "below" else other
        decided, override = other["decided_by"], first.get("override")
        if decided == "override" and override in OVERRIDES:
            reason = OVERRIDES[str(override)]
        else:
            reason = DECISIONS["priority" if decided == "override" else decided]
        gaps = [(name, points) for name, points in (other.get("parts") or {}).items() if abs(points) >= 0.005]
        found.append({"words": words, "other": other, "first": first["id"], "reason": reason, "gaps": gaps})
    return found


async def forms(page: Page, asker: Submitter, given: Given) -> dict[str, Any]:
    """The job as it is when its page is loaded: which forms make sense."""
    name = name_in(given)

    def read(reader: Reader) -> Row:
        check_sees(reader, name, asker, "job.show")
        return job_shown_to(reader, name, asker)

    found = await page.look(read)
    if found["user"] != asker.user and asker.sees != "all":
        raise Refused("not_owner", "this job belongs to another user", status=403)
    wanted: dict[str, str] = {field: given[field] for field in LOG_FIELDS if field in given}
    return {"job": found, "log_query": urlencode(wanted)}
