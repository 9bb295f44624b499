"""The view of steps: shells and commands that were started in running jobs.

A step is over once its allocation is: an intake of a version without steps ends allocations, and not their steps.
"""

_OPEN = "s.ended_at IS NULL AND l.ended_at IS NOT NULL"
_UNSTARTED = "s.unstarted <> '0' AND s.signal IS NULL AND coalesce(s.exit_status, 125) <= 125"
"""The worst of its ended tasks is one that never ran."""
END = f"""coalesce(s.ended_at, l.ended_at) AS ended_at,
    CASE WHEN {_UNSTARTED} THEN NULL ELSE s.exit_status END AS exit_status, s.signal,
    CASE WHEN s.cause = 'job_ended' OR {_OPEN} THEN 'job_ended' WHEN {_UNSTARTED} THEN 'not_started' ELSE s.cause END
        AS cause"""
"""How a step ``s`` of an allocation ``l`` has ended: ``ended_at``, ``exit_status``, ``signal``, ``cause``."""

JOB_STEP = f"""CREATE VIEW job_step AS
SELECT l.job_id, s.allocation_id, s.number, j."user", s.command, s.tasks, s.nodes, s.started_by, s.started_at, {END}
FROM job_steps s JOIN allocations l ON l.id = s.allocation_id JOIN jobs j ON j.id = l.job_id"""
