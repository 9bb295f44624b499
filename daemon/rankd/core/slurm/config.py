"""``scontrol show config``, ``scontrol show partition``, ``slurm.conf``, ``gres.conf`` and ``cgroup.conf``.

Settings with an equivalent are converted. All others get a remark with what to do, except those that have no effect on
who may run what, when or where (:mod:`.setting_advice`): they are only counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from rankd.core.slurm.config_line import config_lines, fields_of
from rankd.core.slurm.duration import parse_duration
from rankd.core.slurm.enforcement import Enforcement, read_enforcement
from rankd.core.slurm.gres import read_autodetect, read_devices, read_types
from rankd.core.slurm.node import NodeLine, NodeLines
from rankd.core.slurm.partition import Partition, PartitionLines
from rankd.core.slurm.plain_setting import PLAIN, plain_setting
from rankd.core.slurm.reading import NOT_SET, Reading
from rankd.core.slurm.setting_advice import HARMLESS, advice_on, is_usual
from rankd.core.slurm.tres import parse_tres, resource_of

Value = float | str | bool | list[str] | None

VERSION = "slurm_version"
FAIR_TREE_SINCE = (19, 5)
"""From this version on, fair tree is the default."""

_WEIGHTS = {
    "priorityweightage": "age",
    "priorityweightassoc": "association",
    "priorityweightfairshare": "fairshare",
    "priorityweightjobsize": "size",
    "priorityweightpartition": "queue",
    "priorityweightqos": "qos",
}
_MULTIFACTOR = frozenset({"priority/multifactor", "multifactor"})
_OF_OTHER_FILES = frozenset({"autodetect"})
"""Settings that ``gres.conf`` may have. All others say that the file is about the whole cluster."""


class SlurmConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. ``settings``: by rankd's dotted keys. ``weights``: those that are not 0.

    ``models``: of GPUs, in gres.conf. ``enforced``: what Slurm enforces of the accounting; None if the file does not
    say it, as a list of partitions.
    """

    weights: dict[str, float] = {}
    settings: dict[str, Value] = {}
    partitions: tuple[Partition, ...] = ()
    nodes: tuple[NodeLine, ...] = ()
    models: tuple[str, ...] = ()
    enforced: Enforcement | None = None


def parse_config(text: str, reading: Reading) -> SlurmConfig:
    """The settings. What can't be converted gets a remark."""
    config = _Config(reading)
    lines = list(config_lines(text, reading))
    config.version = next((_version(value) for _, key, value in lines if key.lower() == VERSION), None)
    for number, key, value in lines:
        config.add(number, key, value)
    return config.found()


class _Config:
    """The settings from the lines so far."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.version: tuple[int, int] | None = None
        self.weights: dict[str, float] = {}
        self.settings: dict[str, Value] = {}
        self.partitions = PartitionLines(reading)
        self.nodes = NodeLines(reading)
        self.models: list[str] = []
        self.n_read = self.others = 0
        self.is_general = False
        self.enforced = Enforcement()
        self._records: dict[str, Callable[[int, str], None]] = {
            "partitionname": lambda line, value: self.partitions.add(line, fields_of(value)),
            "nodename": self._node,
            "name": self._node,
        }
        self._known: dict[str, Callable[[int, str], None]] = {
            "prioritymaxage": self._max_age,
            "prioritydecayhalflife": self._half_life,
            "priorityfavorsmall": self._favor,
            "priorityflags": self._flags,
            "priorityweighttres": self._tres_weights,
            "fairsharedampeningfactor": self._dampening,
            "accountingstorageenforce": self._enforce,
            "prioritytype": self._type,
            "grestypes": lambda line, value: read_types(line, value, reading),
            "autodetect": lambda line, value: read_autodetect(line, value, reading),
        }

    def add(self, line: int, written: str, value: str) -> None:
        self.n_read += 1
        key = written.lower()
        if key in self._records:
            self._records[key](line, value)
            return
        self.is_general = self.is_general or not (key in _OF_OTHER_FILES or "constrain" in key or "cgroup" in key)
        if key in self._known:
            self._known[key](line, value)
        elif key in _WEIGHTS:
            self.weights[_WEIGHTS[key]] = self.reading.amount(line, written, value, 0.0)
        elif key in PLAIN:
            self.settings |= plain_setting(line, written, value, self.reading)
        else:
            self._other(line, written, value)

    def _other(self, line: int, written: str, value: str) -> None:
        key = written.lower()
        if key == "prioritycalcperiod":
            message = f"{written} = {value}: not needed; priorities follow every change within seconds"
            self.reading.remark(line, message)
        elif HARMLESS.fullmatch(key):
            self.others += key != VERSION
        elif not is_usual(key, value):
            self.reading.remark(line, f"{written} = {value[:200]}: no equivalent in rankd; {advice_on(key)}")

    def found(self) -> SlurmConfig:
        if not self.n_read:
            self.reading.refuse(0, "has no line of the form Key = value")
        if self.others:
            message = f"settings without an effect on who may run what, when or where, left out: {self.others}"
            self.reading.remark(0, message)
        about_priority = any(key.startswith("priority.") for key in self.settings)
        if self.settings.get("priority.policy") is None and not any(self.weights.values()) and about_priority:
            self.reading.remark(0, "no weight is above 0, so jobs go in the order of their submission: policy = fcfs")
            self.settings["priority.policy"] = "fcfs"
        weights = {name: weight for name, weight in self.weights.items() if weight}
        return SlurmConfig(
            weights=weights,
            settings=self.settings,
            partitions=tuple(self.partitions.found),
            nodes=tuple(self.nodes.found) if self.nodes.is_readable else (),
            models=tuple(self.models),
            enforced=self.enforced if self.is_general else None,
        )

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
        self.enforced = read_enforcement(line, value, self.reading)

    def _type(self, line: int, value: str) -> None:
        if value.strip().lower() == "priority/basic":
            self.settings["priority.policy"] = "fcfs"
        elif value.strip().lower() not in _MULTIFACTOR:
            self.reading.remark(line, f"PriorityType {value}: no equivalent in rankd; read as priority/multifactor")

    def _node(self, line: int, value: str) -> None:
        """A line of nodes, or one of ``gres.conf``, which has a ``Name`` or looks for devices."""
        fields = fields_of(value)
        if "name" in fields:
            model = read_devices(line, fields, self.reading)
            self.models += [model] if model else []
        elif "autodetect" in fields:
            read_autodetect(line, fields["autodetect"], self.reading)
        else:
            self.nodes.add(line, fields)


def _version(text: str) -> tuple[int, int]:
    """``20.11.8`` as (20, 11)."""
    major, minor, *_ = [*(int(part) for part in re.findall(r"[0-9]{1,6}", text)), 0, 0]
    return major, minor
