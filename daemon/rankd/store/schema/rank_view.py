"""How SQL computes ranks: from the order of a full generation, and the insertions and removals of deltas.

    rank = rank in the full generation + inserted before - removed before

The delta's entries are in chunks of JSON lists, ordered by the ranks that they change. ``ranking_delta_places`` stores
where each chunk begins, and by how much all chunks before it shift the following ranks. So a look-up reads one row of
each and one short list, for any size of the delta.
"""

from __future__ import annotations

from rankd.store.engine.word import WITH_EACH, elements, number_in, piece

CHUNK = 4096
"""Ranks, and job ids, per chunk of the stored order."""

RANK_WIDTH = 8
PRIORITY_WIDTH = 11
"""Characters per number in the chunks, so that SQL can cut one out without reading the others."""

NEWEST_BASE = "(SELECT base FROM generations ORDER BY number DESC LIMIT 1)"
NEWEST_NUMBER = "(SELECT max(number) FROM generations)"


def rank_of(job: str, base: str) -> str:
    """The rank of a pending job; null if it has none.

    Both arguments are numbers, or columns with their tables, because ``json_each`` has its own ``id``.
    """
    return f"""(SELECT CASE WHEN d.job_id IS NULL THEN {_in_base(job, base)}
            ELSE {_inserted(job, base)} END
        FROM (SELECT 1) one LEFT JOIN ranking_delta_jobs d ON d.generation = {base} AND d.job_id = {job})"""


def _inserted(job: str, base: str) -> str:
    """The rank of a job that a delta has placed: its own position, shifted by all entries before it."""
    return f"""(SELECT p.shift + {number_in("c.positions", "k.key")} + (
                SELECT coalesce(sum(CASE WHEN e.value > 0 THEN 1 ELSE -1 END), 0)
                FROM {elements("c.positions", "e")} WHERE e.key < k.key)
            FROM ranking_deltas c JOIN {elements("c.ids", "k")} ON k.value = {job}
            JOIN ranking_delta_places p ON p.generation = c.generation AND p.chunk = c.chunk
            WHERE c.generation = {base} AND c.chunk = d.chunk)"""


def _in_base(job: str, base: str) -> str:
    """The rank of a job that is still at its place in the full generation."""
    return f"""(SELECT b.rank + coalesce((
                SELECT p.shift + (SELECT coalesce(sum(
                        CASE WHEN e.value BETWEEN 1 AND b.rank THEN 1 WHEN e.value BETWEEN -b.rank AND -1 THEN -1 END
                    ), 0)
                    FROM ranking_deltas c {WITH_EACH} {elements("c.positions", "e")}
                    WHERE c.generation = p.generation AND c.chunk = p.chunk)
                FROM ranking_delta_places p WHERE p.generation = {base} AND p.first_position <= b.rank
                ORDER BY p.first_position DESC, p.place DESC LIMIT 1), 0)
            FROM (SELECT nullif({piece("c.ranks", f"({job} - c.first_id) * {RANK_WIDTH} + 1", RANK_WIDTH)}, 0) AS rank
                FROM rank_chunks c WHERE c.generation = {base} AND c.chunk = {job} / {CHUNK} AND c.first_id <= {job}
                LIMIT 1) b)"""


RANKING = f"""CREATE VIEW ranking AS
SELECT row_number() OVER (ORDER BY o.position, o.late, o.place, o.entry) AS rank, o.job_id, o.priority,
    q.path AS queue, {NEWEST_NUMBER} AS generation
FROM (
    SELECT c.first_rank + i.key AS position, 1 AS late, 0 AS place, 0 AS entry, i.value AS job_id,
        {piece("c.priorities", f"i.key * {PRIORITY_WIDTH} + 1", PRIORITY_WIDTH)} AS priority
    FROM ranking_chunks c {WITH_EACH} {elements("c.ids", "i")}
    WHERE c.generation = {NEWEST_BASE} AND c.first_rank + i.key NOT IN (
        SELECT -e.value FROM ranking_deltas d {WITH_EACH} {elements("d.positions", "e")}
        WHERE d.generation = {NEWEST_BASE} AND e.value < 0)
    UNION ALL
    SELECT e.value, 0, p.place, e.key, {number_in("d.ids", "e.key")}, {number_in("d.priorities", "e.key")}
    FROM ranking_deltas d
    JOIN ranking_delta_places p ON p.generation = d.generation AND p.chunk = d.chunk
    {WITH_EACH} {elements("d.positions", "e")}
    WHERE d.generation = {NEWEST_BASE} AND e.value > 0) o
JOIN jobs j ON j.id = o.job_id
JOIN queues q ON q.id = j.queue_id"""
