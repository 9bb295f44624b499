"""What an asker sees of others' jobs: rows of lists and answers without what ``[privacy] jobs`` hides.

A hidden value is None. Lists of ``own`` have no rows of others at all; that is decided by their filter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankd.core.admission.submitter import Submitter
from rankd.core.model.setting import Privacy

Row = dict[str, Any]

COUNTED = frozenset(
    {
        "id",
        "state",
        "queue",
        "partition",
        "reason",
        "held",
        "nodes",
        "cores",
        "resources",
        "gpus",
        "allocated",
        "earlier_core_s",
        "earlier_gpu_s",
        "earlier_memory_byte_s",
        "exclusive",
        "time_limit_s",
        "nodelist",
        "requeues",
        "submitted_at",
        "eligible_at",
        "started_at",
        "ended_at",
        "expected_start_at",
        "reserved_nodes",
        "rank",
        "priority",
        "generation",
        "ranked_at",
        "difference",
        "decided_by",
    }
)
"""What is shown of any job with ``counts``."""
HIDDEN = "hidden"
"""The ``override`` of a priority whose parts are hidden."""
SIDES = ("above", "above_other", "below")
"""The neighbours in the answer to why a job has its rank."""


def sees_all(asker: Submitter) -> bool:
    """Whether nothing is hidden from this asker."""
    return asker.privileged or asker.sees == "all"


def sees_only(asker: Submitter) -> str | None:
    """The user whose single jobs this asker sees; None: those of all users."""
    return None if sees_all(asker) else asker.user


def seen(row: Row, asker: Submitter) -> Row:
    """A job's row as this asker sees it."""
    if sees_all(asker) or row.get("user") == asker.user:
        return row
    shown = {name: value if name in COUNTED else None for name, value in row.items()}
    if "factors" in row:
        hidden = {"value": None, "points": None}
        shown |= {"factors": [{**factor, **hidden} for factor in row["factors"]], "override": HIDDEN}
    if "parts" in row:
        shown["parts"] = {}
    return shown


def seen_neighbours(answer: Row, asker: Submitter) -> Row:
    """The answer about an own job. Of neighbours of other users it has what ``counts`` shows; with ``own``, nothing."""
    if sees_all(asker):
        return answer
    return answer | {side: _neighbour(answer.get(side), asker) for side in SIDES}


def _neighbour(other: Row | None, asker: Submitter) -> Row | None:
    if other is None or other.get("gone") or other.get("user") == asker.user:
        return other
    return seen(other, asker) if asker.sees == "counts" else None


def seen_shares(rows: Sequence[Row], asker: Submitter) -> Sequence[Row]:
    """The accounts, and the users whose shares this asker sees."""
    if sees_all(asker):
        return rows
    return [row for row in rows if row["user"] in (None, asker.user)]


def seen_devices(rows: Sequence[Row], asker: Submitter) -> Sequence[Row]:
    """All devices. Of others' jobs, they show what this asker sees: their ids with ``counts``, nothing with ``own``."""
    if sees_all(asker):
        return rows
    hidden = {"user": None, "taken_by": None} | ({} if asker.sees == "counts" else {"job": None, "since": None})
    return [row if row["user"] == asker.user else row | hidden for row in rows]


def seen_lacks(answer: Row, asker: Submitter) -> Row:
    """Why a job waits, without the users of processes that take devices, if this asker does not see other users."""
    if sees_all(asker):
        return answer
    return answer | {"lacks": [lack | {"taken": []} for lack in answer.get("lacks") or []]}


def seen_late(answer: Row, asker: Submitter) -> Row:
    """Why a job started late, without the ids of others' jobs where this asker does not see that they are there."""
    late = answer.get("late")
    if late is None or sees_all(asker) or asker.sees == "counts":
        return answer
    causes = [cause if cause["kind"] == "lost nodes" else cause | {"named": []} for cause in late["causes"]]
    return answer | {"late": late | {"causes": causes}}


def public_actor(actor: str, jobs: Privacy) -> str | None:
    """The user in an event that every user may hear; None where ``[privacy] jobs`` hides users from each other."""
    return actor if jobs == "all" else None


def is_about_hidden(given: Mapping[str, object]) -> bool:
    """Whether a filter has conditions on something that ``counts`` hides. ``given``: the filter's fields."""
    return any(given.get(name) is not None for name in ("users", "accounts", "names", "qos"))
