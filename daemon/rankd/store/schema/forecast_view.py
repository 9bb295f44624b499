"""The views of forecasts."""

from __future__ import annotations

START_RANGE = """CREATE VIEW start_range AS
SELECT r.job_id AS job, j."user", r.early, r.late, r.reason, r.fact, f.made_at
FROM start_ranges r JOIN jobs j ON j.id = r.job_id JOIN forecasts f ON f.id = 1"""

START_ESTIMATE = """CREATE VIEW start_estimate AS
SELECT e.job_id AS job, e."user", e.made_at, e.shown_at, e.early, e.late, e.started_at,
    e.started_at - (e.early + coalesce(e.late, e.early)) / 2.0 AS error_s
FROM start_estimates e"""
