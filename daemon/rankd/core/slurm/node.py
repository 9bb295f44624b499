"""Nodes of ``slurm.conf`` and of ``scontrol show node``: which ones may join, and what each has.

In rankd this is ``[nodes] known``. Amounts are limits there: a node has what its agent offers, and no more than this.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import msgspec

from rankd.core.model.nodelist import fold, unfold
from rankd.core.model.quantity import MEMORY, MOST_CORES, MOST_OF_A_NODE, VCORE
from rankd.core.slurm.gres import NodeGres, parse_gres
from rankd.core.slurm.reading import NOT_SET, Reading

_MEBIBYTE = 2**20
MOST_NODES = 100_000
"""In one import. More are taken for a typo."""
_LONG_NUMBER = re.compile(r"[0-9]{16}")
_OUT_OF_USE = re.compile(r"down|drain|fail|future|cloud|maint", re.IGNORECASE)
_LOST = {"weight": "Weight", "cpuspeclist": "CpuSpecList", "restrictedcorespergpu": "RestrictedCoresPerGPU"}
_KNOWN = frozenset(
    {
        "nodename", "cpus", "cputot", "boards", "sockets", "socketsperboard", "corespersocket", "threadspercore",
        "realmemory", "gres", "feature", "features", "availablefeatures", "activefeatures", "state", "corespeccount",
        "memspeclimit", "arch", "os", "version", "nodeaddr", "nodehostname", "bcastaddr", "port", "tmpdisk",
        "reason", "procs", "cpualloc", "cpuefctv", "cpuload", "cpubind", "allocmem", "freemem", "partitions",
        "boottime", "slurmdstarttime", "lastbusytime", "resumeaftertime", "cfgtres", "alloctres", "capwatts",
        "currentwatts", "avewatts", "consumedjoules", "extsensorsjoules", "extsensorswatts", "extsensorstemp",
        "gresused", "gresdrain", "owner", "mcs_label", "comment", "extra", "parameters", "instanceid",
        "instancetype", "reservationname", "topology", "topologystr", "switchname", "certtoken", "dynamicnode",
    }
)  # fmt: skip
"""Fields that are converted, or that decide nothing about jobs."""
_KINDS = re.compile(r"[a-z][a-z0-9_.-]{0,62}")


class NodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes with the same amounts. ``resources``: None if the line does not say what they have.

    ``models``: of their GPUs, as Slurm names them.
    """

    names: tuple[str, ...]
    line: int
    resources: Mapping[str, int] | None
    models: tuple[str, ...] = ()


class NodeLines:
    """The nodes of the lines so far. ``NodeName=DEFAULT`` changes what the lines below leave out."""

    def __init__(self, reading: Reading) -> None:
        self.found: list[NodeLine] = []
        self.is_readable = True
        self._reading = reading
        self._usual: dict[str, str] = {}

    def add(self, line: int, fields: Mapping[str, str]) -> None:
        """A line, with its fields by key in lower case."""
        name = fields.get("nodename", "")
        if name.upper() == "DEFAULT":
            self._usual |= fields
            return
        names = self._names(line, name)
        whole = {**self._usual, **fields}
        generic = parse_gres(whole.get("gres", ""))
        amounts = self._amounts(line, name, whole, generic)
        self._remark_rest(line, name, whole)
        if names:
            models = tuple(generic.models)
            self.found.append(NodeLine(names=tuple(names), line=line, resources=amounts, models=models))

    def _remark_rest(self, line: int, name: str, fields: Mapping[str, str]) -> None:
        """Remark on fields that decide which jobs a node gets, with what to do."""
        subject = f"node '{name[:60]}'"
        features = fields.get("feature", fields.get("features", fields.get("availablefeatures", "")))
        if features.lower() not in NOT_SET:
            labels = ",".join(f"{word.strip()}=yes" for word in features.split(","))[:200]
            self._reading.remark(line, f"{subject}: Features={features[:200]}: start its agent with --labels {labels}")
        if _OUT_OF_USE.search(fields.get("state", "")):
            message = f"{subject}: State={fields['state'][:60]}: drain it once its agent has joined (rankd node drain)"
            self._reading.remark(line, message)
        lost = [f"{title}={fields[key]}" for key, title in _LOST.items() if fields.get(key, "1") not in ("1", "0", "")]
        if lost:
            message = f"{subject}: no equivalent in rankd for {', '.join(lost)}: nodesortpolicy decides which node is"
            self._reading.remark(line, f"{message} next; `rankd agent --resources` says what its jobs may use")
        for key in fields.keys() - _LOST.keys() - _KNOWN:
            self._reading.remark(
                line, f"{subject}: the import does not know {key}={fields[key][:60]}; it has no effect"
            )

    def _names(self, line: int, text: str) -> list[str]:
        try:
            names = [] if _LONG_NUMBER.search(text) else unfold(text)
        except ValueError:
            names = []
        if not names or len(names) + sum(len(one.names) for one in self.found) > MOST_NODES:
            self.is_readable = False
            message = f"the nodes '{text[:60]}' can't be read; no node is put into [nodes] known, so all may join"
            self._reading.remark(line, message)
            return []
        return names

    def _amounts(self, line: int, name: str, fields: Mapping[str, str], gres: NodeGres) -> dict[str, int] | None:
        """What each node has; None if the line says nothing about it. Cores or memory that it lacks are not limited."""
        subject, reading = f"node '{name[:60]}'", self._reading
        self._read_gres(line, subject, gres)
        kept = {kind: number for kind, number in gres.amounts.items() if _is_possible(kind, number)}
        cores = _cores(line, subject, fields, reading)
        memory = reading.whole(line, f"RealMemory of {subject}", fields.get("realmemory", ""))
        has_cores, has_memory = 0 < cores <= MOST_CORES, 0 < memory * _MEBIBYTE <= MOST_OF_A_NODE
        lacks = [title for title, has in (("CPUs", has_cores), ("RealMemory", has_memory)) if not has]
        if lacks:
            message = f"{subject}: without {' and '.join(lacks)} its agent may offer as much as it finds of "
            reading.remark(line, message + ("that" if has_cores or has_memory or kept else "everything"))
        spared = reading.whole(line, f"CoreSpecCount of {subject}", fields.get("corespeccount", ""))
        spared *= reading.whole(line, f"ThreadsPerCore of {subject}", fields.get("threadspercore", ""), 1)
        withheld = reading.whole(line, f"MemSpecLimit of {subject}", fields.get("memspeclimit", ""))
        if not (has_cores or has_memory or kept):
            return None
        size = {
            VCORE: max(1, cores - spared) if has_cores else MOST_CORES,
            MEMORY: max(1, memory - withheld) * _MEBIBYTE if has_memory else MOST_OF_A_NODE,
        }
        return {**size, **kept}

    def _read_gres(self, line: int, subject: str, gres: NodeGres) -> None:
        lost = [f"{kind}:{number}" for kind, number in gres.amounts.items() if not _is_possible(kind, number)]
        self._reading.lost(line, subject, [f"Gres={item}" for item in gres.lost + lost])
        for item in gres.wrong:
            message = f"{subject}: Gres={item[:60]} has no whole number as its count; write NAME:TYPE:COUNT"
            self._reading.refuse(line, message)
        for item in gres.kept:
            message = f"{subject}: Gres={item[:60]}: jobs use up what they ask for; no_consume has no equivalent"
            self._reading.remark(line, f"{message} in rankd. If it only says where jobs may run, give a label instead")


def _is_possible(kind: str, number: int) -> bool:
    return kind not in (VCORE, MEMORY) and number <= MOST_OF_A_NODE and _KINDS.fullmatch(kind) is not None


def _cores(line: int, subject: str, fields: Mapping[str, str], reading: Reading) -> int:
    """The processors, as Slurm counts them; 0 if no field says how many."""
    for key in ("cpus", "cputot"):
        if fields.get(key):
            return reading.whole(line, f"CPUs of {subject}", fields[key])
    parts = ("boards", "sockets", "socketsperboard", "corespersocket", "threadspercore")
    given = [reading.whole(line, f"{key} of {subject}", fields[key]) for key in parts if fields.get(key)]
    product = 1
    for number in given:
        product *= min(number, MOST_CORES + 1)
    return product if given else 0


def known_nodes(lines: Sequence[NodeLine], used: Collection[str] | None = None) -> dict[str, Mapping[str, int]]:
    """The table ``[nodes] known``: lists of nodes with what each may offer. A node counts where it is named first.

    ``used``: only these nodes; None for all.
    """
    seen = set[str]()
    known: dict[str, Mapping[str, int]] = {}
    for one in lines:
        names = [name for name in dict.fromkeys(one.names) if name not in seen and (used is None or name in used)]
        seen.update(names)
        if names:
            known[fold(names)] = one.resources or {}
    return known
