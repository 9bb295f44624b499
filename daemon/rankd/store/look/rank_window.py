"""Some places of the ranking: a window of it, for a page that shows the ranking and follows it.

Every look reads a bounded number of rows, however many jobs wait. Without a filter it is the window alone. With one,
the first :data:`SEARCHED` places are searched, and at most :data:`MOST_OF_USER` jobs of a user behind them.

SQL is text. Reading the head of a million ranked jobs and 50 breakdowns takes 12 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rankd.core.errors import Refused
from rankd.core.model.array import parse_name
from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.engine.word import IN_NUMBERS, IN_TEXTS, JOIN_IN_ORDER
from rankd.store.look.job_filter import as_json
from rankd.store.look.priority_list import has_ranking, priorities_of
from rankd.store.look.rank_look import at_rank

SEARCHED = 10_000
"""The first places of the ranking, which the database keeps as rows."""
MOST_OF_USER = 500
LONGEST_TEXT = 200

_MORE = """
    id, "array", array_job, array_task, reason, reason_fact, expected_start_at, reserved_nodes, time_limit_s, nodes,
    cores, resources, state"""


class RankFilter(NamedTuple):
    """All conditions must hold. ``text``: part of the name, in any case, or the job's id. ``queue``: also those below.

    ``only``: the one user whose jobs the asker sees; None: all users.
    """

    user: str | None = None
    account: str | None = None
    queue: str | None = None
    text: str | None = None
    only: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it selects every job."""
        return not any(self)


class Window(NamedTuple):
    """Pending jobs by rank, with their breakdowns. ``ranked``: how many jobs have a rank. ``generation``: of the ranks.

    ``after``: the rank behind which the next window begins; None: there is none. ``is_cut``: jobs behind the searched
    places were not looked for.
    """

    rows: list[Row]
    ranked: int
    generation: int | None
    ranked_at: float | None
    after: int | None
    is_cut: bool


def window(connection: Reader, wanted: RankFilter, after: int, size: int) -> Window:
    """The jobs with ranks above ``after``, at most ``size``."""
    newest = fetch(connection, "SELECT number, ranked_at, jobs FROM generation ORDER BY number DESC LIMIT 1")
    if not newest or not has_ranking(connection):
        return Window([], 0, None, None, None, is_cut=False)
    ranked = newest[0]["jobs"]
    ids = _ids_from(connection, after, size + 1) if wanted.is_open else _filtered(connection, wanted, after, size + 1)
    rows = [row for row in with_details(connection, priorities_of(connection, ids)) if row["rank"] is not None]
    more = len(rows) > size
    rows = rows[:size]
    is_cut = not wanted.is_open and not more and ranked > SEARCHED
    last = rows[-1]["rank"] if more else None
    return Window(rows, ranked, newest[0]["number"], newest[0]["ranked_at"], last, is_cut)


def first_places(connection: Reader) -> list[int]:
    """The jobs of the first :data:`SEARCHED` places, by rank: 10 ms."""
    return [row["job_id"] for row in fetch(connection, "SELECT job_id FROM ranking_head ORDER BY rank")]


def with_details(connection: Reader, rows: list[Row]) -> list[Row]:
    """Breakdowns with what the ranking does not say of these jobs: tasks, sizes, why they wait."""
    found = fetch(connection, f"SELECT {_MORE} FROM job WHERE id {IN_NUMBERS}", [as_json([row["id"] for row in rows])])
    more = {row["id"]: row for row in found}
    return [row | more[row["id"]] for row in rows if row["id"] in more]


def _ids_from(connection: Reader, after: int, size: int) -> Sequence[int]:
    """The jobs behind a rank. Those behind the rows that the database keeps are looked up one by one."""
    sql = "SELECT rank, job_id FROM ranking_head WHERE rank > ? ORDER BY rank LIMIT ?"
    rows = fetch(connection, sql, [after, size])
    ids = [row["job_id"] for row in rows]
    rank = rows[-1]["rank"] if rows else after
    while len(ids) < size and (job := at_rank(connection, rank + 1)) is not None:
        ids.append(job)
        rank += 1
    return ids


def _filtered(connection: Reader, wanted: RankFilter, after: int, size: int) -> Sequence[int]:
    terms, values = conditions(wanted)
    sql = (
        f"SELECT h.job_id AS id FROM ranking_head h {JOIN_IN_ORDER} jobs j ON j.id = h.job_id"
        " JOIN associations a ON a.id = j.association_id JOIN queues q ON q.id = j.queue_id"
        f" WHERE h.rank > ? AND j.state = 'pending'{terms} ORDER BY h.rank LIMIT ?"
    )
    ids = [row["id"] for row in fetch(connection, sql, [after, *values, size])]
    user = wanted.only or wanted.user
    if len(ids) < size and user is not None:
        ids += _of_user(connection, user, terms, values)
    return ids


def _of_user(connection: Reader, user: str, terms: str, values: Sequence[object]) -> list[int]:
    """A user's pending jobs behind the searched places, found by the index of users."""
    sql = (
        "SELECT j.id FROM jobs j JOIN associations a ON a.id = j.association_id JOIN queues q ON q.id = j.queue_id"
        f" WHERE j.\"user\" {IN_TEXTS} AND j.state = 'pending' AND j.id NOT IN (SELECT job_id FROM ranking_head)"
        f"{terms} ORDER BY j.id LIMIT ?"
    )
    return [row["id"] for row in fetch(connection, sql, [as_json([user]), *values, MOST_OF_USER])]


def conditions(wanted: RankFilter) -> tuple[str, list[object]]:
    """The filter in SQL, each condition after an ``AND``, and its parameters: on ``jobs j``, its account and queue."""
    terms, values = list[str](), list[object]()
    for column, value in (('j."user"', wanted.user), ('j."user"', wanted.only), ("a.account", wanted.account)):
        if value is not None:
            terms.append(f"{column} = ?")
            values.append(value)
    if wanted.queue is not None:
        terms.append("(lower(q.path) = ? OR lower(q.path) LIKE ? ESCAPE '!')")
        values += [wanted.queue.lower(), f"{_escaped(wanted.queue.lower())}.%"]
    if wanted.text is not None:
        number = _number(wanted.text)
        same = "" if number is None else " OR j.id = ? OR j.array_job = ?"
        terms.append(f"(lower(j.name) LIKE ? ESCAPE '!'{same})")
        values += [f"%{_escaped(wanted.text[:LONGEST_TEXT].lower())}%", *([] if number is None else [number, number])]
    return "".join(f" AND {term}" for term in terms), values


def _escaped(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _number(text: str) -> int | None:
    """The job of an id or a task's name; None for other texts."""
    try:
        return parse_name(text).job if text[:1].isdecimal() and len(text) < LONGEST_TEXT else None
    except Refused:  # then it is a part of a name
        return None
