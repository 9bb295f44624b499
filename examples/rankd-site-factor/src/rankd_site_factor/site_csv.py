"""Site values: of users, accounts, or users in accounts, as a CSV file says.

    site_csv = the value of (account, user), else of the user, else of the account, else 0        in [0, 1]

The file has the columns ``account``, ``user`` and ``value``; its path is in the environment variable
``RANKD_SITE_CSV``. It is read again when it has changed.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rankd.core.model.setting import PrioritySettings
from rankd.core.ranking.columns import FloatArray
from rankd.core.ranking.factor import FactorContext, Per

VARIABLE = "RANKD_SITE_CSV"
DEFAULT = "/etc/rankd/site.csv"


class SiteCsv:
    """All jobs of an association share a value, so there is one per association, not one per job."""

    name = "site_csv"
    per = Per.ASSOCIATION
    lowest = 0.0
    highest = 1.0

    def __init__(self, settings: PrioritySettings) -> None:
        del settings
        self._path = Path(os.environ.get(VARIABLE, DEFAULT))
        self._version: tuple[int, ...] | None = None
        self._values: Mapping[tuple[str, str], float] = {}

    def values(self, context: FactorContext) -> FloatArray:
        """By association.

        Raises:
            OSError: the file can't be read; rankd keeps the last good values.
            ValueError: it is wrong, with the line.
        """
        stat = self._path.stat()
        version = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if version != self._version:
            self._values = read(self._path)
            self._version = version
        return np.array([self._value(*pair) for pair in context.groups.names.associations], dtype=np.float64)

    def _value(self, account: str, user: str) -> float:
        for pair in ((account, user), ("", user), (account, "")):
            if pair in self._values:
                return self._values[pair]
        return 0.0

    def sql(self) -> str | None:
        """None: values of associations are stored."""
        return None

    def parameters(self) -> Mapping[str, float]:
        """None, without a formula."""
        return {}


def read(path: Path) -> Mapping[tuple[str, str], float]:
    """Values by (account, user); "" stands for any.

    Raises:
        ValueError: a line is wrong.
    """
    found: dict[tuple[str, str], float] = {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if rows.fieldnames is None or set(rows.fieldnames) != {"account", "user", "value"}:
            raise ValueError(f"{path}:1: the columns must be account, user and value, not {rows.fieldnames}")
        for row in rows:
            try:
                value = float(row["value"])
            except (TypeError, ValueError):
                raise ValueError(f"{path}:{rows.line_num}: {row['value']!r} is no number") from None
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{path}:{rows.line_num}: {value} is not in [0, 1]")
            if not (row["account"] or row["user"]):
                raise ValueError(f"{path}:{rows.line_num}: neither an account nor a user")
            found[row["account"], row["user"]] = value
    return found
