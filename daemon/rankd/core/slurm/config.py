"""``scontrol show config``, ``scontrol show partition`` and ``slurm.conf``: weights, half-life, partitions.

Only keys about priorities are read, and some others that administrators may expect. The rest is only counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from rankd.core.model.device import GPU, model_of
from rankd.core.slurm.duration import parse_duration
from rankd.core.slurm.gres import read_autodetect, read_devices, read_types
from rankd.core.slurm.node import NodeLine, NodeLines
from rankd.core.slurm.reading import NOT_SET, Reading
from rankd.core.slurm.tres import parse_tres, per_unit, resource_of

Value = float | str | bool | None

VERSION = "slurm_version"
FAIR_TREE_SINCE = (19, 5)
"""From this version on, fair tree is the default."""

_KEY = re.compile(r"\s*([A-Za-z][A-Za-z0-9_./]*)\s*=\s?(.*?)\s*$")
_PAIR = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(\"[^\"]*\"|\S*)")
_RECORDS = frozenset({"partitionname", "nodename", "name"})
"""The first keys of entries with several fields: of partitions, nodes, and (in ``gres.conf``) devices."""
_WEIGHTS = {
    "priorityweightage": "age",
    "priorityweightassoc": "association",
    "priorityweightfairshare": "fairshare",
    "priorityweightjobsize": "size",
    "priorityweightpartition": "queue",
    "priorityweightqos": "qos",
}
_LOOKED_AT = re.compile(r"priority|preempt|schedulertype|accountingstorageenforce|fairsharedampeningfactor")
_AS_HERE = {
    "prioritytype": {"priority/multifactor", "multifactor"},
    "priorityusageresetperiod": {"none"},
    "priorityparameters": {"none"},
    "preemptmode": {"off"},
    "preempttype": {"preempt/none", "(null)"},
    "schedulertype": {"sched/backfill"},
}
"""Values that mean the same as rankd's own behaviour."""


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of Slurm's. In rankd it becomes a queue with this factor."""

    name: str
    line: int
    factor: float | None = None
    is_default: bool = False
    billing: dict[str, float] | None = None
    qos: str | None = None


class SlurmConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings about priorities. ``settings``: by rankd's dotted keys. ``weights``: those that are not 0."""

    weights: dict[str, float] = {}
    settings: dict[str, Value] = {}
    partitions: tuple[Partition, ...] = ()
    nodes: tuple[NodeLine, ...] = ()


def parse_config(text: str, reading: Reading) -> SlurmConfig:
    """The settings. Other keys about priorities get a remark; keys about other things are counted."""
    config = _Config(reading)
    lines = list(_logical(text))
    config.version = next((_version(value) for _, key, value in lines if key.lower() == VERSION), None)
    for number, key, value in lines:
        config.add(number, key, value)
    return config.found()


def _logical(text: str) -> Iterator[tuple[int, str, str]]:
    """(line number, key, value). A partition, node or device is one entry with all its fields in the value."""
    pending: tuple[int, str, str] | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(?<!\\)#.*", "", raw)
        if pending is not None and line[:1].isspace() and _PAIR.search(line):
            pending = (pending[0], pending[1], f"{pending[2]} {line.strip()}")
            continue
        match = _KEY.match(line)
        if pending is not None:
            yield pending
        pending = None
        if match is None:
            continue
        entry = (number, match.group(1), match.group(2))
        if entry[1].lower() in _RECORDS:
            pending = (number, entry[1], line.strip())
        else:
            yield entry
    if pending is not None:
        yield pending


class _Config:
    """The settings from the lines so far."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.version: tuple[int, int] | None = None
        self.weights: dict[str, float] = {}
        self.settings: dict[str, Value] = {}
        self.partitions: list[Partition] = []
        self.nodes = NodeLines(reading)
        self.n_read = self.others = 0
        self.flags: frozenset[str] = frozenset()
        self._known: dict[str, Callable[[int, str], None]] = {
            "prioritymaxage": self._max_age,
            "prioritydecayhalflife": self._half_life,
            "priorityfavorsmall": self._favor,
            "priorityflags": self._flags,
            "priorityweighttres": self._tres_weights,
            "fairsharedampeningfactor": self._dampening,
            "accountingstorageenforce": self._enforce,
            "prioritytype": self._type,
            "partitionname": self._partition,
            "nodename": self._node,
            "name": self._node,
            "grestypes": lambda line, value: read_types(line, value, reading),
            "autodetect": lambda line, value: read_autodetect(line, value, reading),
        }

    def add(self, line: int, written: str, value: str) -> None:
        self.n_read += 1
        key = written.lower()
        if key in self._known:
            self._known[key](line, value)
        elif key in _WEIGHTS:
            self.weights[_WEIGHTS[key]] = self.reading.amount(line, written, value, 0.0)
        elif _LOOKED_AT.match(key):
            self._remark(line, written, value)
        elif key != VERSION:
            self.others += 1

    def found(self) -> SlurmConfig:
        if not self.n_read:
            self.reading.refuse(0, "has no line of the form Key = value")
        if self.others:
            self.reading.remark(0, f"settings that are not about priorities, and were not read: {self.others}")
        if self.settings.get("priority.policy") is None and not any(self.weights.values()) and self.settings:
            self.reading.remark(0, "no weight is above 0, so jobs go in the order of their submission: policy = fcfs")
            self.settings["priority.policy"] = "fcfs"
        weights = {name: weight for name, weight in self.weights.items() if weight}
        return SlurmConfig(
            weights=weights,
            settings=self.settings,
            partitions=tuple(self.partitions),
            nodes=tuple(self.nodes.found) if self.nodes.is_readable else (),
        )

    def _remark(self, line: int, key: str, value: str) -> None:
        if value.lower() in NOT_SET or value.lower() in _AS_HERE.get(key.lower(), set()):
            return
        if key.lower() == "prioritycalcperiod":
            self.reading.remark(line, f"{key} = {value}: not needed; priorities follow every change within seconds")
        else:
            self.reading.remark(line, f"{key} = {value}: no equivalent in rankd")

    def _duration(self, line: int, value: str) -> float | None:
        try:
            return parse_duration(value)
        except ValueError as error:
            self.reading.refuse(line, str(error))
            return None

    def _max_age(self, line: int, value: str) -> None:
        seconds = self._duration(line, value)
        if seconds:
            self.settings["priority.max_age_s"] = seconds
        elif seconds is not None:
            self.reading.remark(line, "PriorityMaxAge of 0 has no equivalent in rankd; the default of 7 days is used")

    def _half_life(self, line: int, value: str) -> None:
        seconds = self._duration(line, value)
        if seconds is not None:
            self.settings["priority.fairshare.half_life_s"] = seconds or "none"

    def _favor(self, line: int, value: str) -> None:
        del line
        small = value.strip().lower() in ("yes", "y", "true", "1", "up")
        self.settings["priority.favor"] = "small" if small else "large"

    def _flags(self, line: int, value: str) -> None:
        flags = {flag.strip().upper() for flag in value.split(",")} - {"", "(NULL)"}
        recent = self.version is None or self.version >= FAIR_TREE_SINCE
        classic = flags & {"NO_FAIR_TREE", "DEPTH_OBLIVIOUS"} or (not recent and "FAIR_TREE" not in flags)
        self.settings["priority.fairshare.algorithm"] = "classic" if classic else "fair_tree"
        self.settings["priority.size_relative_to_time"] = "SMALL_RELATIVE_TO_TIME" in flags
        for flag in sorted(flags - {"FAIR_TREE", "NO_FAIR_TREE", "SMALL_RELATIVE_TO_TIME"}):
            self.reading.remark(line, f"PriorityFlags {flag}: no equivalent in rankd")

    def _tres_weights(self, line: int, value: str) -> None:
        if value.lower() in NOT_SET:
            return
        try:
            weights = parse_tres(value)
        except ValueError as error:
            self.reading.refuse(line, f"PriorityWeightTRES: {error}")
            return
        for tres, (weight, _) in weights.items():
            resource = resource_of(tres)
            if resource is None:
                self.reading.remark(
                    line, f"PriorityWeightTRES {tres}={weight:g}: no equivalent in rankd for this resource"
                )
            else:
                self.weights[f"resource.{resource}"] = weight

    def _dampening(self, line: int, value: str) -> None:
        factor = self.reading.amount(line, "FairShareDampeningFactor", value, 1.0)
        self.settings["priority.fairshare.dampening"] = factor or 1.0

    def _enforce(self, line: int, value: str) -> None:
        enforced = {word.strip().lower() for word in value.split(",")} - {"", "none", "0", "(null)"}
        implied = enforced & {"associations", "limits", "qos", "safe", "wckeys", "all"} or "1" in enforced
        self.settings["admission.unknown_association"] = "refuse" if implied else "zero"
        for word in sorted(enforced - {"associations", "1"}):
            self.reading.remark(line, f"AccountingStorageEnforce {word}: no equivalent in rankd")

    def _type(self, line: int, value: str) -> None:
        if value.strip().lower() == "priority/basic":
            self.settings["priority.policy"] = "fcfs"
        elif value.strip().lower() not in _AS_HERE["prioritytype"]:
            self.reading.remark(line, f"PriorityType {value}: no equivalent in rankd; read as priority/multifactor")

    def _node(self, line: int, value: str) -> None:
        """A line of nodes, or one of ``gres.conf``, which has a ``Name`` or looks for devices."""
        fields = _fields(value)
        if "name" in fields:
            read_devices(line, fields, self.reading)
        elif "autodetect" in fields:
            read_autodetect(line, fields["autodetect"], self.reading)
        else:
            self.nodes.add(line, fields)

    def _partition(self, line: int, value: str) -> None:
        fields = _fields(value)
        name = fields.get("partitionname", "")
        if name.upper() == "DEFAULT":
            self.reading.remark(
                line, "PartitionName=DEFAULT: no equivalent in rankd; give `scontrol show partition` instead"
            )
            return
        factor = fields.get("priorityjobfactor", fields.get("priority"))
        self.partitions.append(
            Partition(
                name=name,
                line=line,
                factor=None if factor is None else self.reading.amount(line, "PriorityJobFactor", factor, 0.0),
                is_default=fields.get("default", "").lower() in ("yes", "y", "true"),
                billing=self._billing(line, name, fields.get("tresbillingweights", "")),
                qos=None if fields.get("qos", "").lower() in NOT_SET else fields["qos"],
            )
        )
        lost = [key for key in ("prioritytier", "preemptmode") if fields.get(key, "1").lower() not in ("1", "off")]
        self.reading.lost(line, f"partition '{name}'", [f"{key}={fields[key]}" for key in lost])

    def _billing(self, line: int, name: str, value: str) -> dict[str, float] | None:
        if value.lower() in NOT_SET:
            return None
        try:
            weights = parse_tres(value)
        except ValueError as error:
            self.reading.refuse(line, f"TRESBillingWeights of '{name}': {error}")
            return None
        billing = {}
        for tres, (weight, suffix) in weights.items():
            resource = resource_of(tres)
            if resource is None or weight < 0:
                self.reading.remark(
                    line, f"partition '{name}': TRESBillingWeights {tres}={weight:g}: no equivalent in rankd"
                )
            else:
                billing[resource] = per_unit(resource, weight, suffix)
        return self._summed(line, name, billing)

    def _summed(self, line: int, name: str, billing: dict[str, float]) -> dict[str, float]:
        """The weights, where the weight of a model has that of all GPUs in it: Slurm bills both for one device."""
        of_all = billing.get(GPU, 0.0)
        models = [kind for kind in billing if model_of(kind) is not None] if of_all else []
        if models:
            shown = ", ".join(f"{kind} = {billing[kind] + of_all:g}" for kind in models)
            message = f"Slurm bills the weight of gres/gpu as well for a device of a named model; so {shown}"
            self.reading.remark(line, f"partition '{name}': {message}")
        return billing | {kind: billing[kind] + of_all for kind in models}


def _fields(value: str) -> dict[str, str]:
    """The fields of an entry by key in lower case."""
    return {key.lower(): text.strip('"') for key, text in _PAIR.findall(value)}


def _version(text: str) -> tuple[int, int]:
    """``20.11.8`` as (20, 11)."""
    major, minor, *_ = [*(int(part) for part in re.findall(r"[0-9]{1,6}", text)), 0, 0]
    return major, minor
