"""The asker: own jobs, shares, and what the last ones waited for."""

from __future__ import annotations

from typing import NamedTuple

from rankd.core.admission.submitter import Submitter
from rankd.core.model.job import FINAL_STATES
from rankd.core.model.wait_part import COLUMNS
from rankd.core.model.wait_word import WAITED
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.job_list import jobs
from rankd.store.look.share_list import accounts_part, share_to_compare, shares
from rankd.store.look.waited import waited_of
from rankd.store.look.web.look import Given, Look
from rankd.wire.job_selection import JobFilter

ROWS, ENDED_ROWS = 200, 20
OPEN = ["pending", "allocated", "running"]
ENDED = sorted(state.value for state in FINAL_STATES)


class MeShown(NamedTuple):
    """``past``: seconds by cause of the newest ``n_past`` jobs that have started or ended."""

    n_past: int
    past: list[tuple[str, float]]
    open: list[Row]
    ended: list[Row]
    shares: list[Row]


def _me(reader: Reader, asker: Submitter, _given: Given) -> MeShown:
    if not asker.user:
        return MeShown(0, [], [], [], [])
    mine = jobs(reader, JobFilter(users=[asker.user], states=OPEN, limit=ROWS))
    ended = jobs(reader, JobFilter(users=[asker.user], states=ENDED, limit=ENDED_ROWS))
    own = shares(reader, asker.user)
    n_jobs, seconds = waited_of(reader, asker.user)
    return MeShown(
        n_jobs,
        [(WAITED[COLUMNS[cause]], amount) for cause, amount in seconds.items() if amount >= 1],
        sorted(mine, key=lambda row: (row["state"] == "pending", row["rank"] or 0, row["id"])),
        ended[::-1],
        [row | {"part": share_to_compare(row, accounts_part(reader, row["account"]))} for row in own],
    )


ME = Look("me", MeShown, _me)
