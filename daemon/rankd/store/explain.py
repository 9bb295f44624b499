"""Why a job is where it is: its breakdown beside its neighbours', and what keeps it from running.

Queries on the views, like :mod:`rankd.store.look`; the caller holds one read transaction, so that all numbers
are of one generation.
"""

from __future__ import annotations

from rankd.core.errors import Refused
from rankd.store.look import Reader, Row, fetch, priorities
from rankd.wire.message import JobFilter


def why(connection: Reader, job_id: int) -> Row:
    """The job's place: ``rank`` of ``of``, its factors, ``above`` and ``below`` with what separates them, its reason.

    Raises:
        Refused: ``unknown_job``.
    """
    found = fetch(
        connection, 'SELECT id, "user", state, queue, reason, reason_fact, nodelist FROM job WHERE id = ?', [job_id]
    )
    if not found:
        raise Refused("unknown_job", f"there is no job {job_id}", "id", status=404)
    answer = found[0] | {"rank": None, "of": None, "above": None, "below": None}
    rows = priorities(connection, JobFilter(id=job_id))
    if not rows:
        return answer
    own = rows[0]
    answer |= {name: own[name] for name in _PLACE}
    answer["of"] = fetch(connection, "SELECT jobs FROM generation WHERE number = ?", [own["generation"]])[0]["jobs"]
    if own["rank"] is not None:
        for side, rank in (("above", own["rank"] - 1), ("below", own["rank"] + 1)):
            answer[side] = _neighbour(connection, own, rank)
    return answer


_PLACE = (
    "rank",
    "generation",
    "ranked_at",
    "priority",
    "override",
    "override_by",
    "class_value",
    "points_sum",
    "factors",
)


def _neighbour(connection: Reader, own: Row, rank: int) -> Row | None:
    """The job at a rank, and by how many points it differs from ours, part by part (positive: it has more)."""
    job_id = _at_rank(connection, own["generation"], rank)
    rows = priorities(connection, JobFilter(id=job_id)) if job_id is not None else []
    if not rows:
        return {"id": job_id, "gone": True} if job_id is not None else None
    other = rows[0]
    parts = {"class": other["class_value"] - own["class_value"]}
    for mine, theirs in zip(own["factors"], other["factors"], strict=True):
        if mine["points"] is not None and theirs["points"] is not None:
            parts[mine["name"]] = theirs["points"] - mine["points"]
    return {
        "id": other["id"],
        "user": other["user"],
        "queue": other["queue"],
        "priority": other["priority"],
        "override": other["override"],
        "difference": other["priority"] - own["priority"],
        "parts": parts,
        "decided_by": _decided_by(own, other),
    }


def _decided_by(own: Row, other: Row) -> str:
    """What puts one of two neighbours before the other."""
    first, second = (own, other) if own["rank"] < other["rank"] else (other, own)
    if first["priority"] < second["priority"]:
        return "queue"
    if first["priority"] > second["priority"]:
        return "override" if first["override"] else "priority"
    return "submission" if first["queue"] == second["queue"] else "queue order"


def _at_rank(connection: Reader, generation: int, rank: int) -> int | None:
    sql = (
        "SELECT json_extract(ids, '$[' || (? - first_rank) || ']') AS id FROM ranking_chunks"
        " WHERE generation = ? AND first_rank <= ? ORDER BY chunk DESC LIMIT 1"
    )
    rows = fetch(connection, sql, [rank, generation, rank])
    return rows[0]["id"] if rows else None
