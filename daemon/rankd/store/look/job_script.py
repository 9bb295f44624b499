"""The script of a job. SQL is text: the command line uses this module without importing SQLAlchemy."""

from __future__ import annotations

from rankd.core.errors import Refused
from rankd.store.engine.reading import Reader, fetch
from rankd.store.look.job_name import record_of

_QUERY = "SELECT s.script FROM jobs j LEFT JOIN job_scripts s ON s.job_id = coalesce(j.array_job, j.id) WHERE j.id = ?"

_SIZE = """SELECT length(s.script) AS size
    FROM jobs j JOIN job_scripts s ON s.job_id = coalesce(j.array_job, j.id) WHERE j.id = ?"""


def job_script(connection: Reader, name: int | str) -> str:
    """The text, as it was submitted.

    Raises:
        Refused: ``unknown_job``; ``no_script``: the job runs a command.
    """
    job_id = record_of(connection, name).job
    rows = fetch(connection, _QUERY, [job_id])
    if not rows:
        raise Refused("unknown_job", f"there is no job {name}", "id", status=404)
    if rows[0]["script"] is None:
        message = f"job {name} has no script, it runs a command; see `rankd show {name}`"
        raise Refused("no_script", message, "id", status=404)
    return bytes(rows[0]["script"]).decode()


def script_bytes(connection: Reader, job_id: int) -> int | None:
    """The size of a job's script; None if it has none."""
    rows = fetch(connection, _SIZE, [job_id])
    return None if not rows else int(rows[0]["size"])
