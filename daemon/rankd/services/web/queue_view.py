"""The queue: who is next and why, and what runs."""

from __future__ import annotations

from typing import NamedTuple

from rankd.core.admission.privacy import Row, seen, sees_all
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import FINAL_STATES
from rankd.core.words import DECISIONS, OVERRIDES
from rankd.services.web.bar import compared, extent, parts
from rankd.services.web.page import Page
from rankd.services.web.silence import silent
from rankd.services.web.view import Given
from rankd.store.engine.reading import Reader
from rankd.store.look.job_window import JobWindow, in_states, unranked
from rankd.store.look.priority_list import weights
from rankd.store.look.rank_window import RankFilter, Window, window
from rankd.store.look.service_list import role_holders
from rankd.store.look.why import decided_by

ROWS = 50
RUNNING = ["allocated", "running"]
ENDED = sorted(state.value for state in FINAL_STATES)
STATES = ("", "waiting", "running", "ended")
FILTERS = ("user", "account", "queue", "text", "state", "after")


class Shown(NamedTuple):
    """What the page shows. None: it was not asked for. ``above``: the job before the first of ``waiting``."""

    waiting: Window | None
    unranked: JobWindow | None
    running: JobWindow | None
    ended: JobWindow | None
    factors: list[str]
    above: Row | None
    services: list[Row]


async def queue(page: Page, asker: Submitter, given: Given) -> str:
    """The ranking and the running jobs."""
    state = given.get("state", "")
    if state not in STATES:
        raise Refused("bad_request", f"'{state[:40]}' is no state here; choose waiting, running or ended", "state")
    after = given.get("after", "0")
    if not (after.isascii() and after.isdecimal()) or len(after) > 15:
        raise Refused("bad_request", "after in the address of this page has to be a whole number", "after")
    shown = await page.look(lambda reader: _read(reader, asker, given, int(after)))
    rows = [] if shown.waiting is None else _explained(shown, asker)
    return page.template.render(
        "_queue.html", shown=shown, rows=rows, between=extent(rows), unranked=_seen(shown.unranked, asker),
        running=_seen(shown.running, asker), ended=_seen(shown.ended, asker), given=given, next=_next(shown),
        silent=silent(shown.services, page.clock()), is_filtered=any(given.get(name) for name in FILTERS[:-2]),
    )  # fmt: skip


def _seen(window: JobWindow | None, asker: Submitter) -> list[Row]:
    return [] if window is None else [seen(row, asker) for row in window.rows]


def _read(reader: Reader, asker: Submitter, given: Given, after: int) -> Shown:
    state, only = given.get("state", ""), _only(asker, given)
    wanted = RankFilter(given.get("user"), given.get("account"), given.get("queue"), given.get("text"), only)
    waiting = without = running = ended = above = None
    if state in ("", "waiting"):
        waiting = window(reader, wanted, after - 1 if after else 0, ROWS + 1 if after else ROWS)
        if after and waiting.rows and waiting.rows[0]["rank"] <= after:  # what separates the first one from it is shown
            above, waiting = waiting.rows[0], waiting._replace(rows=waiting.rows[1:])
        elif len(waiting.rows) > ROWS:
            waiting = waiting._replace(rows=waiting.rows[:ROWS], after=waiting.rows[ROWS - 1]["rank"])
        if not after:
            without = unranked(reader, wanted, ROWS)
    if state == "running" or (state == "" and not after):
        running = in_states(reader, wanted, RUNNING, after or None, 4 * ROWS if state else ROWS)
    if state == "ended":
        ended = in_states(reader, wanted, ENDED, after or None, ROWS)
    return Shown(
        waiting, without, running, ended, [] if waiting is None else list(weights(reader)), above, role_holders(reader)
    )


def _only(asker: Submitter, given: Given) -> str | None:
    """The one user whose jobs this asker may see, or may filter; None: all users'."""
    if sees_all(asker):
        return None
    is_about_hidden = any(name in given for name in ("user", "account", "text"))
    return asker.user if asker.sees == "own" or is_about_hidden else None


def _next(shown: Shown) -> int | None:
    """The parameter ``after`` of the next page."""
    if shown.waiting is not None:
        return shown.waiting.after
    listed = shown.running or shown.ended
    return listed.rows[-1]["id"] if listed is not None and listed.more and listed.rows else None


def _explained(shown: Shown, asker: Submitter) -> list[Row]:
    """Each waiting job with what puts the one above before it, in words. The first of all has none."""
    assert shown.waiting is not None  # noqa: S101 - the caller has looked
    rows = [seen(row, asker) for row in shown.waiting.rows]
    before = [None if shown.above is None else seen(shown.above, asker), *rows]
    return [
        row | {"gap": None if above is None or above["rank"] != row["rank"] - 1 else gap(row, above)}
        for row, above in zip(rows, before, strict=False)
    ]


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
