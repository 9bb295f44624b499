"""The scripts of jobs, in a table of their own, so that a job's row and all lists stay small."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import bindparam, select

from rankd.core.model.job import AcceptedJob, JobRequest
from rankd.store.engine.bulk import bulk_insert
from rankd.store.engine.connection import Connection
from rankd.store.schema.table import job_scripts

_SCRIPT = select(job_scripts.c.script).where(job_scripts.c.job_id == bindparam("job"))


def without_script(request: JobRequest) -> JobRequest:
    """The request as the table ``jobs`` stores it."""
    return request if request.script is None else msgspec.structs.replace(request, script=None)


def insert_scripts(connection: Connection, new: Sequence[tuple[int, AcceptedJob]]) -> None:
    """Store the scripts of those of these new jobs that have one."""
    rows = [(id_, job.request.script.encode()) for id_, job in new if job.request.script is not None]
    if rows:
        bulk_insert(connection, "job_scripts", ("job_id", "script"), rows)


def read_script(connection: Connection, job: int) -> bytes:
    """The script of a job that has one, in UTF-8."""
    return bytes(connection.execute(_SCRIPT, {"job": job}).scalar_one())
