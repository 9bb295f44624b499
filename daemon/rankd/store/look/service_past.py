"""What services did lately: passes with their durations, configurations that came into force, adapters' readings.

SQL is text: each reads the end of an index.
"""

from __future__ import annotations

from rankd.store.engine.reading import Reader, Row, fetch


def last_generations(connection: Reader, number: int) -> list[Row]:
    """The last generations, oldest first. ``durations``: seconds by phase; ``failures``: factors that failed."""
    columns = "number, kind, ranked_at, jobs, new_jobs, durations, failures"
    return fetch(connection, f"SELECT {columns} FROM generation ORDER BY number DESC LIMIT ?", [number])[::-1]


def last_configurations(connection: Reader, number: int) -> list[Row]:
    """The last configurations, newest first, without the texts of their files."""
    columns = "number, at, actor, event, directory, changes"
    return fetch(connection, f"SELECT {columns} FROM configuration ORDER BY number DESC LIMIT ?", [number])


def adapter_readings(connection: Reader) -> list[Row]:
    """The adapters by name, with their last readings."""
    sql = "SELECT name, input, plugin, state, rows, read_at, tried_at, failures, message FROM adapter ORDER BY name"
    return fetch(connection, sql)
