"""The limits of resources and jobs among the options of a user, an account or a QoS, as they are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rankd.core.slurm.reading import NOT_SET, Limit

OF_USERS = ("grptres", "grpjobs", "maxjobs")
OF_ACCOUNTS = ("grptres", "grpjobs")
OF_QOS = ("grptres", "maxtresperuser", "maxtrespu", "grpjobs", "maxjobsperuser", "maxjobspu")
"""The options of users, accounts and QoS that may have an equivalent, in lower case."""


def limits_in(fields: Mapping[str, str], known: Iterable[str], owner: str, line: int) -> tuple[Limit, ...]:
    """The limits among the fields of a line (keys in lower case)."""
    return tuple(
        Limit(owner=owner, line=line, key=key, text=fields[key])
        for key in known
        if fields.get(key, "").lower() not in NOT_SET
    )
