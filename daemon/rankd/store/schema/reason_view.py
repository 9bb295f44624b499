"""Why a job waits, in SQL: the code and the blocking fact, as columns of the views of jobs.

The table ``wait_reasons`` has the reasons of the newest scheduling cycle. If a job is not eligible, the reason comes
from its own row and from those of the jobs for which it waits.
"""

from __future__ import annotations

from rankd.core.admission.dependency import BEGIN_TIME, DEPENDENCY
from rankd.core.model.job import FINAL_STATES, State
from rankd.core.placement.problem import ARRAY_LIMIT
from rankd.store.engine.word import elements
from rankd.store.schema.rank_view import NEWEST_BASE

_FINAL = ", ".join(f"'{state.value}'" for state in sorted(FINAL_STATES))

_UNMET = f"""(SELECT group_concat(json_extract(d.value, '$.type') || ' of job ' || json_extract(d.value, '$.job')
                || ' (' || coalesce(o.state, 'not known') || ')', '; ')
            FROM {elements("j.depends_on", "d")} LEFT JOIN jobs o ON o.id = json_extract(d.value, '$.job')
            WHERE NOT coalesce(CASE json_extract(d.value, '$.type')
                WHEN 'afterok' THEN o.state = '{State.COMPLETED.value}'
                WHEN 'afternotok' THEN o.state IN ({_FINAL}) AND o.state <> '{State.COMPLETED.value}'
                WHEN 'afterany' THEN o.state IN ({_FINAL})
                ELSE o.state IN ({_FINAL}) OR o.started_at IS NOT NULL END, 0))"""
"""Unmet dependencies, as in :func:`rankd.core.admission.dependency.blocked_by`; NULL if all are met."""

_LETS_OTHERS_IN_FIRST = f"""j.application_id IS NOT NULL AND EXISTS (
            SELECT 1 FROM generation_waiting_applications h WHERE h.application_id = j.application_id AND h.generation
                = {NEWEST_BASE})"""

_LIMIT = """(SELECT k.array_limit FROM arrays y JOIN jobs k ON k.id = y.job_id
            WHERE y.job_id = coalesce(j.array_job, j.id) AND y.n_active >= k.array_limit)"""
_AT_LIMIT = f"(j.array_limit IS NOT NULL OR j.array_job IS NOT NULL) AND {_LIMIT} IS NOT NULL"
"""Whether as many tasks of a job's array run as may run at a time."""

REASON = f"""CASE
        WHEN j.state <> 'pending' THEN NULL
        WHEN j.held OR j.urgency = 0 THEN 'held'
        WHEN j.blocked_by IS NOT NULL THEN j.blocked_by
        WHEN NOT (q.configured AND q.is_leaf) THEN 'not eligible'
        WHEN {_AT_LIMIT} THEN '{ARRAY_LIMIT}'
        WHEN {_LETS_OTHERS_IN_FIRST} THEN 'application waiting'
        ELSE coalesce(w.reason, e.reason) END"""

REASON_FACT = f"""CASE
        WHEN j.state <> 'pending' THEN NULL
        WHEN j.held AND j.held_by <> j."user" THEN 'the administrator ' || j.held_by || ' holds it'
        WHEN j.held THEN NULL
        WHEN j.urgency = 0 THEN 'its urgency is 0'
        WHEN j.blocked_by = '{DEPENDENCY}' THEN {_UNMET}
        WHEN j.blocked_by = '{BEGIN_TIME}' THEN 'not before ' || strftime('%Y-%m-%dT%H:%M:%SZ', j.begin_at, 'unixepoch')
        WHEN NOT q.configured THEN 'the queue ' || q.path || ' was removed: move the job, or bring the queue back'
        WHEN NOT q.is_leaf THEN 'the queue ' || q.path || ' has become a parent queue: move the job below it'
        WHEN {_AT_LIMIT} THEN {_LIMIT} || ' tasks of the array run, as many as may run at a time'
        WHEN {_LETS_OTHERS_IN_FIRST} THEN CASE q.sort_policy
            WHEN 'stateaware' THEN 'queue ' || q.path || ' starts one new application at a time'
            ELSE 'queue ' || q.path || ' ranks other applications first (' || q.sort_policy || ')' END
        ELSE coalesce(w.fact, e.fact) END"""

REASON_JOINS = """LEFT JOIN wait_reasons w ON w.queue_id = j.queue_id AND w.shape = j.shape
    AND w.time_limit_s = coalesce(j.time_limit_s, -1.0) AND w."user" IN ('', j."user")
    AND w.application_id IN (-2, coalesce(j.application_id, -1))
LEFT JOIN wait_reasons e ON e.queue_id = 0 AND e.shape = j.shape
    AND e.time_limit_s = coalesce(j.time_limit_s, -1.0) AND e."user" = '' AND e.application_id = -2"""
"""Joins for the jobs j: the row of their queue (w), and the row for any queue (e)."""
