"""Lists in pages: the rows for one request over the bus, and how to request the next ones.

A page names its last row, not a number of rows to skip. So jobs that appear or end between two requests do not shift or
repeat other jobs. ``next`` in an answer holds the fields to add to the same request. The last page has no ``next``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from rankd.store.engine.reading import Reader, Row, fetch
from rankd.store.look.accounting import accounting_ids, accounting_of, count_accounted
from rankd.store.look.device_list import devices
from rankd.store.look.event_list import events_behind
from rankd.store.look.job_filter import ALL, job_ids
from rankd.store.look.job_list import count_listed, jobs_of, listed_ids
from rankd.store.look.job_name import record_of
from rankd.store.look.letter_list import letters, losses
from rankd.store.look.node_list import nodes
from rankd.store.look.priority_list import priorities_of, weights
from rankd.store.look.queue_list import queues
from rankd.store.look.rank_look import whole_ranking
from rankd.store.look.share_list import shares
from rankd.wire.message import (
    AccountingFilter,
    DeadLetterFilter,
    EventsRequest,
    HistoryRequest,
    JobList,
    PriorityList,
    RankPlace,
    TableFilter,
)

LARGEST_PAGE = 1_000
"""The most rows of a page, even if the request's ``limit`` is larger."""

Cursor = Mapping[str, object]


class Page(NamedTuple):
    """Rows under ``name``; whether more rows follow; and ``behind``, which returns the cursor after a row."""

    name: str
    rows: Sequence[Row]
    more: bool
    behind: Callable[[Row], Cursor]
    besides: Mapping[str, object] = {}
    looked: int | None = None
    """Of a list that is followed: up to which id was looked for rows. Its answers have ``last`` and ``more`` instead of
    ``next``, also if they have no rows."""


def answer(page: Page, room: int) -> Row:
    """The rows of a page that fit into a message of ``room`` bytes (one row at least), and the cursor.

    The rows are JSON already: a megabyte takes milliseconds, in which a service's event loop would stand still.
    """
    texts, size = list[bytes](), 0
    while len(texts) < len(page.rows) and (size < room or not texts):
        texts.append(msgspec.json.encode(page.rows[len(texts)]))
        size += len(texts[-1]) + 1
    if size > room and len(texts) > 1:
        texts.pop()
    kept = _without_torn(page, len(texts))
    texts += [msgspec.json.encode(row) for row in page.rows[len(texts) : kept]]
    del texts[kept:]
    rows = msgspec.Raw(b"[%b]" % b",".join(texts))
    cut = page.more or kept < len(page.rows)
    if page.looked is not None:
        last = page.rows[kept - 1]["id"] if kept < len(page.rows) else page.looked
        return {page.name: rows, **page.besides, "last": last, "more": cut}
    return {page.name: rows, **page.besides, **({"next": page.behind(page.rows[kept - 1])} if cut and kept else {})}


def _without_torn(page: Page, kept: int) -> int:
    """How many rows to send, if ``kept`` fit, so that rows with the same cursor stay together.

    The next page would not have the others. If only rows with one cursor are there, all of them are sent.
    """

    def tears(at: int) -> bool:
        return 0 < at < len(page.rows) and page.behind(page.rows[at - 1]) == page.behind(page.rows[at])

    whole = next((at for at in range(kept, 0, -1) if not tears(at)), 0)
    return whole or next((at for at in range(kept, len(page.rows)) if not tears(at)), len(page.rows))


def _size(limit: int) -> int:
    return min(limit, LARGEST_PAGE)


def job_page(connection: Reader, wanted: JobList) -> Page:
    """Jobs, newest first; with ``after``, the jobs after that id, oldest first."""
    ids, more = _ids(connection, wanted)
    return _of_jobs(wanted, jobs_of(connection, ids, wanted), more, _total(connection, wanted))


def accounting_page(connection: Reader, wanted: AccountingFilter) -> Page:
    """The usage of jobs, in the same order. Tasks without records are on the page of their array."""
    besides = {"total": count_accounted(connection, wanted)} if wanted.count else {}
    size, forward = _size(wanted.limit), wanted.after is not None
    while True:
        ids = accounting_ids(connection, wanted, size + 1)
        rows, more = accounting_of(connection, ids[:size], wanted), len(ids) > size
        if rows or not more:
            return _of_jobs(wanted, rows, more, besides)
        wanted = msgspec.structs.replace(wanted, **{"after" if forward else "before": ids[size - 1]})


def _ids(connection: Reader, wanted: JobList) -> tuple[list[int], bool]:
    size = _size(wanted.limit)
    ids = listed_ids(connection, msgspec.structs.replace(wanted, limit=size + 1))
    return ids[:size], len(ids) > size


def _of_jobs(wanted: JobList, rows: list[Row], more: bool, besides: Cursor) -> Page:
    forward = wanted.after is not None
    ordered = rows if forward else rows[::-1]
    return Page("jobs", ordered, more, lambda row: {"after" if forward else "before": row["id"]}, besides)


def _total(connection: Reader, wanted: JobList) -> Mapping[str, object]:
    """The number of jobs on all pages, if the request asks for it."""
    return {"total": count_listed(connection, wanted)} if wanted.count else {}


def priority_page(connection: Reader, wanted: PriorityList) -> Page:
    """Breakdowns by rank; jobs without a rank come last, by id.

    A page begins after the last job of the page before, at that job's present rank. If that job is no longer pending,
    the page begins after its former rank.
    """
    ranked = whole_ranking(connection)
    pending = job_ids(connection, msgspec.structs.replace(wanted, limit=ALL), ("state = 'pending'",), ())
    ordered = sorted(pending, key=lambda job: _place(ranked.get(job, (None,))[0], job))
    if wanted.behind is not None:
        last = wanted.behind
        rank = ranked[last.job][0] if last.job in ranked else last.rank
        behind = _place(rank, last.job)
        ordered = [job for job in ordered if _place(ranked.get(job, (None,))[0], job) > behind]
    size = _size(wanted.limit)
    rows = priorities_of(connection, ordered[:size])
    besides: dict[str, object] = {"weights": weights(connection)}
    if wanted.count:
        besides["total"] = len(pending)
    return Page("jobs", rows, len(ordered) > size, _behind_rank, besides)


def _place(rank: int | None, job: int) -> tuple[bool, int, int]:
    return (rank is None, rank or 0, job)


def _behind_rank(row: Row) -> Cursor:
    return {"behind": msgspec.to_builtins(RankPlace(job=row["id"], rank=row["rank"]))}


def event_page(connection: Reader, wanted: HistoryRequest) -> Page:
    """A job's events, oldest first."""
    size = _size(wanted.limit)
    columns = "id, job_id, event, state, at, actor, cause, detail"
    query = f"SELECT {columns} FROM job_event WHERE job_id = ? AND id > ? ORDER BY id LIMIT ?"
    rows = fetch(connection, query, [record_of(connection, wanted.id).job, wanted.after or 0, size + 1])
    return Page("events", rows[:size], len(rows) > size, lambda row: {"after": row["id"]})


def follow_page(connection: Reader, wanted: EventsRequest) -> Page:
    """The next events of jobs, oldest first, and how far the list has got."""
    found = events_behind(connection, msgspec.structs.replace(wanted, limit=_size(wanted.limit)))
    return Page("events", found.rows, found.more, lambda row: {"after": row["id"]}, looked=found.last)


def letter_page(connection: Reader, wanted: DeadLetterFilter) -> Page:
    """Dead letters, oldest first, and the number of lost ones."""
    size = _size(wanted.limit)
    rows = letters(connection, msgspec.structs.replace(wanted, limit=size + 1))
    besides = {"losses": losses(connection, wanted.users)}
    return Page("letters", rows[:size], len(rows) > size, lambda row: {"after": row["id"]}, besides)


class Listing(NamedTuple):
    """A list whose rows have a name. ``read`` returns the whole list, ordered by ``key``."""

    name: str
    read: Callable[[Reader], Sequence[Row]]
    key: tuple[str, ...]

    def page(self, connection: Reader, wanted: TableFilter) -> Page:
        """The page after the key ``after``."""
        rows = self.read(connection)
        if wanted.after is not None:
            behind = list(wanted.after)
            rows = [row for row in rows if self._key(row) > behind]
        size = _size(wanted.limit)
        return Page(self.name, rows[:size], len(rows) > size, lambda row: {"after": self._key(row)})

    def _key(self, row: Row) -> list[str]:
        return [row[column] or "" for column in self.key]


LISTINGS = {
    "device.list": Listing("devices", devices, ("node", "id")),
    "node.list": Listing("nodes", nodes, ("partition", "name")),
    "queue.list": Listing("queues", queues, ("partition", "path")),
    "share.list": Listing("shares", shares, ("account", "user")),
}
