"""The queue: who is next and why, and what runs."""

from __future__ import annotations

from typing import Any, NamedTuple

from rankd.core.admission.privacy import Row, seen, sees_all
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import FINAL_STATES
from rankd.core.words import DECISIONS, OVERRIDES
from rankd.services.web.bar import compared, extent, parts
from rankd.services.web.page import Page
from rankd.services.web.view import Given
from rankd.store.engine.reading import Reader
from rankd.store.look.job_list import jobs
from rankd.store.look.page import job_page
from rankd.store.look.priority_list import weights
from rankd.store.look.rank_window import RankFilter, Window, window
from rankd.store.look.why import decided_by
from rankd.wire.job_selection import JobFilter
from rankd.wire.page import JobList

ROWS = 50
RUNNING = ["allocated", "running"]
ENDED = sorted(state.value for state in FINAL_STATES)
STATES = ("", "waiting", "running", "ended")
FILTERS = ("user", "account", "queue", "text", "state", "after")


class Shown(NamedTuple):
    """What the page shows. ``running``, ``ended``: None if they were not asked for."""

    waiting: Window | None
    running: list[Row] | None
    ended: list[Row] | None
    before: int | None
    factors: list[str]
    unranked: list[Row]


async def queue(page: Page, asker: Submitter, given: Given) -> str:
    """The ranking and the running jobs."""
    state = given.get("state", "")
    if state not in STATES:
        raise Refused("bad_request", f"'{state[:40]}' is no state here; choose waiting, running or ended", "state")
    after = given.get("after", "0")
    if not (after.isascii() and after.isdecimal()) or len(after) > 15:
        raise Refused("bad_request", "after in the address of this page has to be a whole number", "after")
    shown = await page.look(lambda reader: _read(reader, asker, given, int(after)))
    rows = [] if shown.waiting is None else _explained([seen(row, asker) for row in shown.waiting.rows])
    hides = [seen(row, asker) for row in shown.running or []]
    return page.template.render(
        "_queue.html", shown=shown, rows=rows, between=extent(rows), running=hides,
        ended=[seen(row, asker) for row in shown.ended or []], given=given,
        next=_next(shown), is_filtered=any(given.get(name) for name in FILTERS[:-2]),
    )  # fmt: skip


def _read(reader: Reader, asker: Submitter, given: Given, after: int) -> Shown:
    state = given.get("state", "")
    only = _only(asker, given)
    waiting = running = ended = before = None
    unranked = list[Row]()
    if state in ("", "waiting"):
        wanted = RankFilter(given.get("user"), given.get("account"), given.get("queue"), given.get("text"), only)
        waiting = window(reader, wanted, after, ROWS)
    if state in ("", "running") and not after:
        running = (
            _matching(reader, given, only, RUNNING)[:ROWS] if state == "" else _matching(reader, given, only, RUNNING)
        )
    if state == "ended":
        found = job_page(reader, JobList(**_conditions(given, only), states=ENDED, limit=ROWS, before=after or None))
        ended = list(found.rows)
        before = ended[-1]["id"] if found.more else None
    factors = [] if waiting is None else list(weights(reader))
    return Shown(waiting, running, ended, before, factors, unranked)


def _matching(reader: Reader, given: Given, only: str | None, states: list[str]) -> list[Row]:
    """The newest jobs in these states that match the filter, newest first."""
    found = jobs(reader, JobFilter(**_conditions(given, only), states=states, limit=4 * ROWS))
    return found[::-1]


def _conditions(given: Given, only: str | None) -> dict[str, Any]:
    users = [only] if only is not None else [given["user"]] if "user" in given else None
    found: dict[str, Any] = {"users": users}
    if only is not None and given.get("user", only) != only:
        found["users"] = []
    found |= {f"{name}s": [given[name]] for name in ("account", "queue") if name in given}
    if "text" in given:
        text = given["text"]
        found |= {"id": int(text)} if text.isascii() and text.isdecimal() and len(text) < 16 else {"names": [text]}
    return found


def _only(asker: Submitter, given: Given) -> str | None:
    """The one user whose jobs this asker may see, or may filter; None: all users'."""
    if sees_all(asker):
        return None
    is_about_hidden = any(name in given for name in ("user", "account", "text"))
    return asker.user if asker.sees == "own" or is_about_hidden else None


def _next(shown: Shown) -> int | None:
    """The parameter ``after`` of the next page."""
    return shown.before if shown.waiting is None else shown.waiting.after


def _explained(rows: list[Row]) -> list[Row]:
    """Each job with what puts the one above before it, in words. The first of a page has none."""
    found = list[Row]()
    for place, row in enumerate(rows):
        above = rows[place - 1] if place and rows[place - 1]["rank"] == row["rank"] - 1 else None
        found.append(row | {"gap": None if above is None else gap(row, above)})
    return found


def gap(own: Row, above: Row) -> str:
    """Why the job above goes first, and the difference of the parts."""
    decided = decided_by(own, above)
    override = above.get("override")
    if decided == "override" and override in OVERRIDES:
        why = OVERRIDES[str(override)]
    else:
        why = DECISIONS["priority" if decided == "override" else decided]
    words = f"Job {above['id']} goes first because {why} ({above['priority'] - own['priority']:+,})."
    by_part = compared(own, above) if parts(own) and parts(above) else None
    return words if by_part is None else f"{words} It has more by part: {by_part}."
