r"""The entries of ``slurm.conf``, ``gres.conf``, ``cgroup.conf`` and of what ``scontrol show`` prints.

A partition, a node or a device is one entry with several fields. ``scontrol`` continues it on indented lines. A ``\``
at the end of a line continues any entry. Source: slurm.conf(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rankd.core.slurm.reading import Reading

RECORDS = frozenset({"partitionname", "nodename", "name", "downnodes", "nodeset", "frontendname"})
"""The first keys of entries with several fields: partitions, nodes, and (in ``gres.conf``) devices."""

_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9_./]*)(?:\[[0-9]+\])?\s*=\s?(.*?)\s*$")
_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(\"[^\"]*\"|\S*)")
_INCLUDE = re.compile(r"\s*include\s+(\S+)", re.IGNORECASE)
_HEADING = re.compile(r"Configuration data as of|Slurmctld\(|.*:\s*$|No \w+ in the system")
"""Lines that ``scontrol`` prints around its answers."""


class ConfigLine(NamedTuple):
    """One entry. ``value``: of a record, all its fields."""

    number: int
    key: str
    value: str


def config_lines(text: str, reading: Reading) -> Iterator[ConfigLine]:
    """The entries. Included files and unreadable lines get a remark."""
    pending: ConfigLine | None = None
    for number, line in _joined(text):
        match = _KEY.match(line)
        key = match.group(1).lower() if match else ""
        if pending is not None and line[:1].isspace() and key not in RECORDS and _PAIR.search(line):
            pending = pending._replace(value=f"{pending.value} {line.strip()}")
            continue
        if pending is not None:
            yield pending
        pending = None
        if match is None:
            _remark_other(number, line, reading)
        elif key in RECORDS:
            pending = ConfigLine(number, match.group(1), line.strip())
        else:
            yield ConfigLine(number, match.group(1), match.group(2))
    if pending is not None:
        yield pending


def fields_of(value: str) -> dict[str, str]:
    """The fields of a record by key in lower case.

    >>> fields_of('PartitionName=gpu Nodes=n[1-2] AllowGroups="a,b"')
    {'partitionname': 'gpu', 'nodes': 'n[1-2]', 'allowgroups': 'a,b'}
    """
    return {key.lower(): text.strip('"') for key, text in _PAIR.findall(value)}


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """The lines without comments, each with its number. Continued lines have the number of the first one."""
    first, parts = 0, list[str]()
    for number, raw in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(?<!\\)#.*", "", raw).rstrip()
        first = first or number
        if line.endswith("\\"):
            parts.append(line[:-1])
            continue
        yield first, "".join([*parts, line.lstrip() if parts else line])
        first, parts = 0, []
    if parts:
        yield first, "".join(parts)


def _remark_other(number: int, line: str, reading: Reading) -> None:
    included = _INCLUDE.match(line)
    if included:
        file = included.group(1)[:200]
        reading.remark(number, f"Include {file}: no other file is read; give this file to the import as well")
    elif line.strip() and not _HEADING.match(line.strip()):
        reading.remark(number, f"'{line.strip()[:60]}' is not a setting of the form Key=value; it is left out")
