"""``sacctmgr -P show qos``: names, priorities, usage factors, and limits that partitions may give to their queues."""

from __future__ import annotations

from rankd.core.model.setting import Qos
from rankd.core.slurm.limit_line import OF_QOS, limits_in
from rankd.core.slurm.printed_table import parse_table
from rankd.core.slurm.reading import Accounting, Limit, Reading

_USED = ("name", "priority", "usagefactor", "id", "description", "descr", *OF_QOS)
_EMPTY = frozenset({"gracetime=00:00:00", "preemptmode=cluster"})
"""Fields with the values that Slurm prints if they were not set."""


def parse_qos(text: str, reading: Reading) -> Accounting:
    """The QoS of the table, in its order."""
    table = parse_table(text, reading)
    if "name" not in table.titles or "priority" not in table.titles:
        reading.refuse(1, "a table of QoS needs the columns Name and Priority; run `sacctmgr -P show qos`")
        return Accounting()
    found: dict[str, Qos] = {}
    limits: list[Limit] = []
    for row in table.rows:
        name = row.get("name")
        if not name or name in found:
            reading.refuse(row.line, f"the QoS '{name}' is listed twice" if name else "the QoS has no name")
            continue
        found[name] = qos_of(name, row.get("priority"), row.get("usagefactor"), row.line, reading)
        limits += limits_in(row.cells, OF_QOS, name, row.line)
        lost = [field for field in table.left(row, _USED) if field.lower() not in _EMPTY]
        reading.lost(row.line, f"QoS '{name}'", lost)
    return Accounting(qos=tuple(found.values()), qos_limits=tuple(limits))


def qos_of(name: str, priority: str, usage_factor: str, line: int, reading: Reading) -> Qos:
    """One QoS, from the texts of its fields."""
    subject = f"QoS '{name}'"
    return Qos(
        name=name,
        priority=reading.whole(line, f"priority of {subject}", priority),
        usage_factor=reading.amount(line, f"usage factor of {subject}", usage_factor, 1.0),
    )
