"""Associations with their usage, as a ranking knew them.

The newest full generation has the usage of each association as it was used. For earlier ones it is computed from the
charges of allocations (:mod:`rankd.store.look.past_usage`).

SQL is text: the command line must not import SQLAlchemy (0.6 s).
"""

from __future__ import annotations

from rankd.config.configuration import Configuration
from rankd.core.model.association import Association
from rankd.store.engine.reading import Reader, Row, fetch

_ALL = """
SELECT a.id, a.account, nullif(a."user", '') AS member, a.parent, a.shares, a.shares_parent, a.priority, a.is_default,
    a.configured"""
_OF_NEWEST = f"""{_ALL}, v.usage
FROM associations a JOIN generation_associations v ON v.association_id = a.id AND v.generation = ? ORDER BY a.id"""
_WITH_FIRST = f"""{_ALL}, d."user" IS NOT NULL AS has_past, f.first
FROM associations a LEFT JOIN (SELECT association_id, min(id) AS first FROM jobs GROUP BY association_id) f
ON f.association_id = a.id LEFT JOIN (SELECT DISTINCT account, "user" FROM usage_days) d
ON d.account = a.account AND d."user" = a."user" ORDER BY a.id"""
_FIRST_LATER = "SELECT min(job_id) AS job FROM job_events WHERE id > ? AND event = 'submit'"


def associations_then(connection: Reader, base: Row, newest: int, configuration: Configuration) -> list[Row]:
    """Rows of a document. Those of the configuration are as it states them; others as stored.

    Args:
        connection: in a read transaction.
        base: the row of a full generation: ``number``, ``at``, ``revision``.
        newest: the number of the newest full generation.
        configuration: the one that was in force for that generation.
    """
    stated = {(one.account, one.user): one for one in configuration.associations}
    if base["number"] == newest:
        rows = fetch(connection, _OF_NEWEST, [newest])
    else:
        rows = _there(_with_usage(connection, base, configuration), stated)
    return [_association(row, base["at"], stated.get((row["account"], row["member"]))) for row in rows]


def _with_usage(connection: Reader, base: Row, configuration: Configuration) -> list[Row]:
    from rankd.store.look.past_usage import usage_then  # noqa: PLC0415 - numpy takes 0.2 s to import

    half_life_s = configuration.settings.priority.fairshare.half_life_s
    usage = usage_then(connection, base["revision"], base["at"], half_life_s)
    [later] = fetch(connection, _FIRST_LATER, [base["revision"]])
    return [
        row | {"usage": usage[row["id"]], "had_jobs": bool(row["has_past"]) or _is_before(row["first"], later["job"])}
        for row in fetch(connection, _WITH_FIRST)
    ]


def _is_before(first: int | None, later: int | None) -> bool:
    """Whether the first job of an association was submitted before the first job of a later time."""
    return first is not None and (later is None or first < later)


def _there(rows: list[Row], stated: dict[tuple[str, str | None], Association]) -> list[Row]:
    """Those that the configuration states or that a user's first job had made, with the accounts above them."""
    parents = {row["account"]: row["parent"] for row in rows if not row["member"]}
    users = [row for row in rows if row["member"] and ((row["account"], row["member"]) in stated or row["had_jobs"])]
    needed: set[str | None] = set()
    above = {row["account"] for row in users}
    while above:
        needed |= above
        above = {parents.get(account) for account in above} - needed - {None}
    kept = {row["id"] for row in users}
    return [row for row in rows if row["id"] in kept or (not row["member"] and _is_kept(row, needed, stated))]


def _is_kept(row: Row, needed: set[str | None], stated: dict[tuple[str, str | None], Association]) -> bool:
    return not row["configured"] or row["account"] in needed or (row["account"], None) in stated


def _association(row: Row, now: float, stated: Association | None) -> Row:
    shown = {
        "account": row["account"],
        "user": row["member"],
        "parent": row["parent"],
        "shares": "parent" if row["shares_parent"] else row["shares"],
        "priority": row["priority"],
        "default": row["is_default"],
    }
    if stated is not None:
        names = ("shares", "priority", "default") if row["member"] else ("parent", "shares", "priority", "default")
        shown |= {name: getattr(stated, name) for name in names}
    return shown | ({"usage": row["usage"], "usage_at": now} if row["member"] else {})
