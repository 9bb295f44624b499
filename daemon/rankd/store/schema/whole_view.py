"""What exclusive jobs hold, in SQL: the amounts of their nodes, which they have whole, instead of those asked for."""

from __future__ import annotations

from rankd.store.engine.word import WITH_EACH, members, sums_as_object

ON_NODE = "coalesce(p.resources, l.resources)"
"""What an allocation ``l`` holds on the node of its part ``p``: JSON, with vcore in thousandths."""


def whole(allocation: str) -> str:
    """What an allocation holds on all its nodes together: JSON, with vcore in cores. Null: its job is not exclusive.

    ``allocation`` is a column with the id. Allocations of earlier versions have null, too.
    """
    return f"""(SELECT CASE WHEN count(*) > 0 THEN {sums_as_object("s.k", "s.total")} END FROM (
        SELECT r.key AS k, CASE r.key WHEN 'vcore' THEN sum(r.value) / 1000.0 ELSE sum(r.value) END AS total
        FROM allocation_nodes w {WITH_EACH} {members("w.resources", "r")}
        WHERE w.allocation_id = {allocation} AND w.resources IS NOT NULL GROUP BY r.key) s)"""
