"""The view of steps: shells and commands that were started in running jobs."""

JOB_STEP = """CREATE VIEW job_step AS
SELECT l.job_id, s.allocation_id, s.number, j."user", s.command, s.tasks, s.nodes, s.started_by, s.started_at,
    s.ended_at, s.exit_status, s.signal, s.cause
FROM job_steps s JOIN allocations l ON l.id = s.allocation_id JOIN jobs j ON j.id = l.job_id"""
