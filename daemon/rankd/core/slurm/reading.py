"""The results of reading one of Slurm's files: problems, and remarks about values without an equivalent in rankd."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from rankd.core.errors import ConfigurationError, Problem
from rankd.core.model.association import Association
from rankd.core.model.setting import Qos
from rankd.core.slurm.option_advice import advice_on_options

Shares = float | Literal["parent"]

PARENT = 2**31 - 1
"""The number in dumps for ``FairShare=parent`` (SLURMDB_FS_USE_PARENT)."""
NOT_SET = frozenset({"", "(null)", "none", "n/a", str(2**32 - 1), str(2**32 - 2)})
"""The texts that Slurm writes for a number that was not given: empty, none, or its INFINITE and NO_VAL."""


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """A remark about a line with a value that has no equivalent in rankd, or not exactly the same one."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        """``cluster.cfg:12: …``, in the format of compilers; without a line if it is about the whole file."""
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


class Reading:
    """One file while it is read. Line numbers begin with 1; 0 means the whole file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.remarks: list[Remark] = []

    def refuse(self, line: int, message: str) -> None:
        """Add a problem, because of which the file can't be used."""
        self.problems.append(Problem(file=self.file, line=line, path="", message=message))

    def remark(self, line: int, message: str) -> None:
        """Add a remark, about a part of the file that is not used."""
        self.remarks.append(Remark(file=self.file, line=line, message=message))

    def lost(self, line: int, subject: str, fields: list[str]) -> None:
        """Add a remark with advice that these fields of a line have no equivalent in rankd, if there are any."""
        if fields:
            advice = advice_on_options([field.partition("=")[0] for field in fields])
            message = f"{subject}: no equivalent in rankd for {', '.join(fields)}"
            self.remark(line, f"{message}; {advice}" if advice else message)

    def by_line(self) -> list[Remark]:
        """The remarks in the order of their lines. Those about the whole file come last."""
        return sorted(self.remarks, key=lambda one: one.line or math.inf)

    def raise_problems(self) -> None:
        """Raise an error if there are problems.

        Raises:
            ConfigurationError: with all problems.
        """
        if self.problems:
            raise ConfigurationError(self.problems)

    def shares(self, line: int, subject: str, text: str) -> Shares:
        """``FairShare``: a number, a fraction, or ``parent``. The default is 1."""
        if text.strip().lower() in ("parent", str(PARENT)):
            return "parent"
        return self.amount(line, f"shares of {subject}", text, 1.0)

    def amount(self, line: int, subject: str, text: str, default: float) -> float:
        """A finite number of at least 0. Another text is a problem, and ``default`` is returned."""
        if text.strip().lower() in NOT_SET:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            self.refuse(line, f"{subject}: '{text.strip()}' is not a number of at least 0")
            return default
        return value

    def whole(self, line: int, subject: str, text: str, default: int = 0) -> int:
        """A whole number of at least 0. Another text is a problem, and ``default`` is returned."""
        value = self.amount(line, subject, text, float(default))
        if not value.is_integer():
            self.refuse(line, f"{subject}: '{text.strip()}' is not a whole number")
            return default
        return int(value)


_TITLES = {"grptres": "GrpTRES", "grpjobs": "GrpJobs", "maxjobs": "MaxJobs", "maxjobspu": "MaxJobsPerUser"}


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit as it is written. ``owner``: a user, an account or a QoS. ``key``: in lower case."""

    owner: str
    line: int
    key: str
    text: str

    @property
    def title(self) -> str:
        """The name of the limit, as in Slurm."""
        return _TITLES.get(self.key, "MaxJobsPerUser" if "jobs" in self.key else "MaxTRESPerUser")

    @property
    def is_of_jobs(self) -> bool:
        """Whether it limits a number of jobs, and not resources."""
        return "jobs" in self.key

    @property
    def is_per_user(self) -> bool:
        """Whether it is a limit of a QoS for each user."""
        return self.key not in ("grptres", "grpjobs")

    def __str__(self) -> str:
        """``GrpTRES=cpu=64,gres/gpu=8``."""
        return f"{self.title}={self.text}"


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one file of the accounting.

    ``lines[i]``: the line of ``associations[i]``. ``default_qos``: that of the cluster, if it has one.
    ``user_limits``, ``account_limits``, ``qos_limits``: limits that may have an equivalent. ``qos_lists``: which QoS an
    account, or a user in an account, may use; the cluster's list is that of root.
    """

    cluster: str = ""
    associations: tuple[Association, ...] = ()
    lines: tuple[int, ...] = ()
    qos: tuple[Qos, ...] = ()
    default_qos: str | None = None
    user_limits: tuple[Limit, ...] = ()
    account_limits: tuple[Limit, ...] = ()
    qos_limits: tuple[Limit, ...] = ()
    qos_lists: Mapping[tuple[str, str | None], str] = {}
    admins: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()


class Entries:
    """The associations of one file, in the order of the file. Each (account, user) is in it once."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._rows: dict[tuple[str, str | None], tuple[Association, int]] = {}

    def __contains__(self, account: str) -> bool:
        """Whether it is a known account."""
        return (account, None) in self._rows

    def add(self, entry: Association, line: int, partition: str = "") -> None:
        """Add an association.

        Slurm may have several of one user in one account, one per partition. Then the first one is used, with the sum
        of their usage.
        """
        key = (entry.account, entry.user)
        known = self._rows.get(key)
        if known is None:
            self._rows[key] = (entry, line)
            if partition:
                message = f"{naming(entry)}: rankd has no associations per partition; '{partition}' counts for all"
                self._reading.remark(line, message)
        elif entry.user is None:
            self._reading.refuse(line, f"{naming(entry)} is listed twice, first in line {known[1]}")
        elif partition:
            first = known[0]
            kept = msgspec.structs.replace(first, usage=first.usage + entry.usage)
            self._rows[key] = (kept, known[1])
            message = f"{naming(entry)}: rankd has no associations per partition; the usage in '{partition}' is added"
            self._reading.remark(line, f"{message} to that of line {known[1]}")
        else:
            self._reading.refuse(line, f"{naming(entry)} is listed twice, first in line {known[1]}")

    def accounting(self, cluster: str = "", qos: tuple[Qos, ...] = (), default_qos: str | None = None) -> Accounting:
        """The content of the file, with all associations in their order."""
        return Accounting(
            cluster=cluster,
            associations=tuple(entry for entry, _ in self._rows.values()),
            lines=tuple(line for _, line in self._rows.values()),
            qos=qos,
            default_qos=default_qos,
        )


def naming(entry: Association) -> str:
    """An association in words."""
    return f"account '{entry.account}'" if entry.user is None else f"user '{entry.user}' in '{entry.account}'"


def said(shares: Shares) -> str:
    """Shares as text."""
    return shares if isinstance(shares, str) else f"{shares:g}"
