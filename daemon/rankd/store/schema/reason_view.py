"""Why a job waits, in SQL: the code and the blocking fact, as columns of the views of jobs.

The table ``wait_reasons`` has the reasons of the newest scheduling cycle. If a job is not eligible, the reason comes
from its own row and from those of the jobs for which it waits.
"""

from __future__ import annotations

from rankd.core.admission.dependency import BEGIN_TIME, DEPENDENCY, NEVER
from rankd.core.model.job import BY_INDEX, FINAL_STATES, SINGLETON, State
from rankd.core.model.reason_code import ARRAY_LIMIT
from rankd.store.engine.word import (
    VALUES,
    after,
    elements,
    instant,
    joined,
    leading,
    parsed,
    read_by,
    text_at,
    type_of,
    value_at,
)
from rankd.store.schema.rank_view import NEWEST_BASE

_FINAL = ", ".join(f"'{state.value}'" for state in sorted(FINAL_STATES))

_TYPE, _NAMED = text_at("d.value", "$.type"), text_at("d.value", "$.job")
_BY_INDEX = f"{_TYPE} = '{BY_INDEX}' AND j.array_task IS NOT NULL"
_TASK = f"""CASE WHEN {_BY_INDEX} THEN j.array_task
            WHEN {type_of(value_at("d.value", "$.job"))} = 'text' THEN {parsed(after(_NAMED, "_"))} END"""
"""The index of the awaited task; NULL if a whole job or array is awaited."""
_AWAITED = f"""CASE WHEN {_TASK} IS NULL THEN {parsed(_NAMED)} ELSE
            (SELECT t.id FROM jobs t WHERE t.array_job = {leading(_NAMED, "_")} AND t.array_task = {_TASK}) END"""
"""The record of the awaited job, array or task; NULL for a task without one."""
_IS_MATCHED = f"{_TYPE} = '{BY_INDEX}' AND y.n_eligible IS NOT NULL AND j.\"array\" IS NOT NULL"
"""Whether each task of the array waits for the same one of the other."""
_EARLIER = f"""(SELECT max(e.id) FROM jobs e {read_by("jobs_name")} WHERE e."user" = j."user" AND e.name = j.name
                AND e.id < coalesce(j.array_job, j.id) AND e.state IN ('pending', 'allocated', 'running'))"""
_EARLIER_NAME = f"""(SELECT coalesce(n.array_job || '_' || n.array_task, n.id || '') FROM jobs n
                    WHERE n.id = {_EARLIER})"""
_SPOILT = "z.n_failed + z.n_cancelled > 0"
_HAS_BEGUN = """CASE WHEN z.job_id IS NULL THEN o.started_at IS NOT NULL
                ELSE z.n_pending = 0 AND z.n_open = z.n_active END"""

_UNMET_TEXT = f"""CASE
                WHEN {_TYPE} = '{SINGLETON}' THEN 'job ' || {_EARLIER_NAME}
                    || ' of the same user and name has not ended'
                WHEN {_IS_MATCHED} THEN '{BY_INDEX} of job ' || {_NAMED} || ' (' || y.n_unmet || ' of ' || y.n_pending
                    || ' tasks can never start)'
                ELSE {_TYPE} || ' of job ' || {_NAMED} || CASE WHEN {_BY_INDEX} THEN '_' || j.array_task ELSE '' END
                    || ' (' || CASE
                        WHEN o.state IN ({_FINAL}) THEN o.state
                        WHEN {_TYPE} = 'afterok' AND {_SPOILT} THEN 'a task did not complete'
                        WHEN o.id IS NOT NULL THEN o.state
                        WHEN {_TASK} IS NULL THEN 'not known'
                        WHEN j.blocked_by = '{NEVER}' THEN 'cancelled' ELSE 'pending' END || ')' END"""
_UNMET = f"""(SELECT {joined(_UNMET_TEXT, "; ", "d.key")}
            FROM {elements("j.depends_on", "d", VALUES)} LEFT JOIN jobs o ON o.id = {_AWAITED}
            LEFT JOIN arrays z ON z.job_id = o.id LEFT JOIN arrays y ON y.job_id = j.id
            WHERE NOT coalesce(CASE
                WHEN {_TYPE} = '{SINGLETON}' THEN {_EARLIER} IS NULL
                WHEN {_IS_MATCHED} THEN y.n_eligible > 0
                WHEN {_TYPE} IN ('afterok', '{BY_INDEX}') THEN o.state = '{State.COMPLETED.value}'
                WHEN {_TYPE} = 'afternotok' THEN o.state IN ({_FINAL}) AND o.state <> '{State.COMPLETED.value}'
                WHEN {_TYPE} = 'afterany' THEN o.state IN ({_FINAL})
                ELSE o.state IN ({_FINAL}) OR {_HAS_BEGUN} END, FALSE))"""
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
        WHEN j.held = 1 OR j.urgency = 0 THEN 'held'
        WHEN j.blocked_by IS NOT NULL THEN j.blocked_by
        WHEN q.configured = 0 OR q.is_leaf = 0 THEN 'not eligible'
        WHEN {_AT_LIMIT} THEN '{ARRAY_LIMIT}'
        WHEN {_LETS_OTHERS_IN_FIRST} THEN 'application waiting'
        ELSE coalesce(w.reason, e.reason) END"""

REASON_FACT = f"""CASE
        WHEN j.state <> 'pending' THEN NULL
        WHEN j.held = 1 AND j.held_by <> j."user" THEN 'the administrator ' || j.held_by || ' holds it'
        WHEN j.held = 1 THEN NULL
        WHEN j.urgency = 0 THEN 'its urgency is 0'
        WHEN j.blocked_by IN ('{DEPENDENCY}', '{NEVER}') THEN {_UNMET}
        WHEN j.blocked_by = '{BEGIN_TIME}' THEN 'not before ' || {instant("j.begin_at")}
        WHEN q.configured = 0 THEN 'the queue ' || q.path || ' was removed: move the job, or bring the queue back'
        WHEN q.is_leaf = 0 THEN 'the queue ' || q.path || ' has become a parent queue: move the job below it'
        WHEN {_AT_LIMIT} THEN {_LIMIT} || CASE {_LIMIT} WHEN 1 THEN ' task of the array runs'
            ELSE ' tasks of the array run' END || ', as many as may run at a time'
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
