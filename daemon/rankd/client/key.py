"""Keys of submissions. Imports little, because ``rankd submit`` uses it."""

from __future__ import annotations

import os
from typing import Any

Job = dict[str, Any]
"""A job as it is sent."""


def with_keys(jobs: list[Job], key: str | None) -> list[Job]:
    """Give every job a key, so that a repeated message makes no second job."""
    stem = key or os.urandom(16).hex()
    if len(jobs) == 1:
        return [{**jobs[0], "key": key or jobs[0].get("key") or stem}]
    own = [job.get("key") for job in jobs]
    distinct = key is None and len(set(own)) == len(own)  # copies of one job must not be taken for the same
    return [{**job, "key": (distinct and job.get("key")) or f"{stem}-{place}"} for place, job in enumerate(jobs)]
