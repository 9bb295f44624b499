"""The queue: a window of the ranking, and the jobs without a rank."""

from __future__ import annotations

from typing import NamedTuple

from rankd.core.admission.privacy import seen, sees_all
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import FINAL_STATES
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.job_window import JobWindow, in_states, unranked
from rankd.store.look.priority_list import weights
from rankd.store.look.rank_window import RankFilter, Window, window
from rankd.store.look.service_list import role_holders
from rankd.store.look.start_range import ranges_of
from rankd.store.look.web.look import Given, Look

ROWS = 50
RUNNING = ["allocated", "running"]
ENDED = sorted(state.value for state in FINAL_STATES)
_NO_RANGE = {"early": None, "late": None}
STATES = ("", "waiting", "running", "ended")


class QueueShown(NamedTuple):
    """What the page shows. None: it was not asked for. ``above``: the job before the first of ``waiting``."""

    waiting: Window | None
    unranked: JobWindow | None
    running: JobWindow | None
    ended: JobWindow | None
    factors: list[str]
    above: Row | None
    services: list[Row]


def _queue(reader: Reader, asker: Submitter, given: Given) -> QueueShown:
    state, after = _state(given), _after(given)
    only = _only(asker, given)
    wanted = RankFilter(given.get("user"), given.get("account"), given.get("queue"), given.get("text"), only)
    waiting = without = running = ended = above = None
    if state in ("", "waiting"):
        waiting = window(reader, wanted, after - 1 if after else 0, ROWS + 1 if after else ROWS)
        if after and waiting.rows and waiting.rows[0]["rank"] <= after:  # what separates the first one from it is shown
            above, waiting = waiting.rows[0], waiting._replace(rows=waiting.rows[1:])
        elif len(waiting.rows) > ROWS:
            waiting = waiting._replace(rows=waiting.rows[:ROWS], after=waiting.rows[ROWS - 1]["rank"])
        ranges = ranges_of(reader, [row["id"] for row in waiting.rows])
        rows = [row | ranges.get(row["id"], _NO_RANGE) for row in waiting.rows]
        waiting = waiting._replace(rows=_seen(rows, asker))
        if not after:
            without = unranked(reader, wanted, ROWS)
    if state == "running" or (state == "" and not after):
        running = in_states(reader, wanted, RUNNING, after or None, 4 * ROWS if state else ROWS)
    if state == "ended":
        ended = in_states(reader, wanted, ENDED, after or None, ROWS)
    factors = [] if waiting is None else list(weights(reader))
    return QueueShown(
        waiting, _shown(without, asker), _shown(running, asker), _shown(ended, asker), factors,
        None if above is None else seen(above, asker), role_holders(reader),
    )  # fmt: skip


QUEUE = Look("queue", QueueShown, _queue, is_list=True)


def _state(given: Given) -> str:
    state = given.get("state", "")
    if state not in STATES:
        raise Refused("bad_request", f"'{state[:40]}' is no state here; choose waiting, running or ended", "state")
    return state


def _after(given: Given) -> int:
    after = given.get("after", "0")
    if not (after.isascii() and after.isdecimal()) or len(after) > 15:
        raise Refused("bad_request", "after in the address of this page has to be a whole number", "after")
    return int(after)


def _only(asker: Submitter, given: Given) -> str | None:
    """The one user whose jobs this asker may see, or may filter; None: all users'."""
    if sees_all(asker):
        return None
    is_about_hidden = any(name in given for name in ("user", "account", "text"))
    return asker.user if asker.sees == "own" or is_about_hidden else None


def _shown(window: JobWindow | None, asker: Submitter) -> JobWindow | None:
    return None if window is None else window._replace(rows=_seen(window.rows, asker))


def _seen(rows: list[Row], asker: Submitter) -> list[Row]:
    return [seen(row, asker) for row in rows]
