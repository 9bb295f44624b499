"""Partitions of ``slurm.conf`` and of ``scontrol show partition``. In rankd each becomes a queue.

Every field is converted, or remarked on with its line and what to do. Source: slurm.conf(5), "PARTITION CONFIGURATION".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from rankd.core.model.device import GPU, model_of
from rankd.core.slurm.duration import parse_duration
from rankd.core.slurm.reading import NOT_SET, Reading
from rankd.core.slurm.tres import parse_tres, per_unit, resource_of

Names = tuple[str, ...]

_YES = frozenset({"yes", "y", "true", "1"})
_WITHOUT_LIMIT = frozenset({"unlimited", "infinite", "-1"})
_CLOSED_STATES = ("DOWN", "DRAIN", "INACTIVE")
_MEMORY = "a job that names no memory has no memory limit, and no memory is counted for it; tell users to give --mem"
_MOST_MEMORY = "jobs may ask for all memory that a node offers; offer less with `rankd agent --resources memory=…`"
_MOST_CORES = "jobs may ask for all cores that a node offers; offer less with `rankd agent --resources vcore=…`"
_POWER = "rankd switches no nodes on or off"
_WHOLE = "jobs share nodes; tell users to give --exclusive"

_ADVICE = {
    "allocnodes": "jobs come from every machine whose users have access (rankd auth invite, rankd node trust)",
    "alternate": "rankd sends no job to another queue; tell users to name it",
    "defcpupergpu": "a job gets the cores that it asks for, one by default; tell users to give -c or --cpus-per-gpu",
    "defmempercpu": _MEMORY,
    "defmempergpu": _MEMORY,
    "defmempernode": _MEMORY,
    "disablerootjobs": 'set admission.submitters to "users": it refuses root\'s jobs in all queues',
    "exclusivetopo": _WHOLE,
    "exclusiveuser": _WHOLE,
    "gracetime": "[node] grace_s is the time between SIGTERM and SIGKILL for all jobs",
    "hidden": "users see all queues; submitacl decides who may submit",
    "jobdefaults": "tell users to give -c or --cpus-per-gpu, and --mem",
    "maxcpuspernode": _MOST_CORES,
    "maxcpuspersocket": _MOST_CORES,
    "maxmempercpu": _MOST_MEMORY,
    "maxmempernode": _MOST_MEMORY,
    "maxnodes": "a queue has no most number of nodes for a job; resources.max limits all its jobs together",
    "maxtime": "a queue has no longest time limit: jobs may ask for more. Tell users, and look for longer ones with"
    " `rankd queue -l`",
    "minnodes": "a queue has no least number of nodes for a job; tell users which queue is for large jobs",
    "oversubscribe": "rankd gives a core to one job at a time; for whole nodes (EXCLUSIVE) tell users to give"
    " --exclusive",
    "overtimelimit": "jobs are ended at their time limit",
    "powerdownonidle": _POWER,
    "preemptmode": "rankd ends no job to make room for another",
    "resumetimeout": _POWER,
    "selecttypeparameters": "rankd gives jobs single cores",
    "suspendtime": _POWER,
    "suspendtimeout": _POWER,
    "topology": "rankd does not know the network's switches; give agents --labels, and let jobs ask with -C",
}
"""What to do about fields that are not converted, by key in lower case."""
_NOTHING = frozenset({"no", "off", "0", "1", "all", "unlimited", "infinite", "-1", "00:00:00"})
"""Values with which a field changes nothing."""
_USUAL = {"minnodes": {"0", "1"}, "maxnodes": {"unlimited"}, "oversubscribe": {"no", "no:1"}, "suspendtime": {"-1"}}
_HARMLESS = frozenset({"totalcpus", "totalnodes", "tres", "cpubind", "lln", "defaulttime"})
_SYNONYMS = {"shared": "oversubscribe", "topologyname": "topology"}


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use a partition. A list that is None allows everybody, or denies nobody.

    ``closed``: the fields that close the partition to users, as written.
    """

    groups: Names | None = None
    accounts: Names | None = None
    denied_accounts: Names | None = None
    qos: Names | None = None
    denied_qos: Names | None = None
    closed: Names = ()


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of Slurm's.

    ``nodes``: as written, empty for all. ``default_time_s``: of jobs that name no time limit, None for no limit.
    """

    name: str
    line: int
    factor: float | None = None
    tier: int = 1
    is_default: bool = False
    billing: dict[str, float] | None = None
    qos: str | None = None
    access: Access = Access()
    nodes: str = ""
    default_time_s: float | None = None


class PartitionLines:
    """The partitions of the lines so far. ``PartitionName=DEFAULT`` changes what the lines below leave out."""

    def __init__(self, reading: Reading) -> None:
        self.found: list[Partition] = []
        self._reading = reading
        self._usual: dict[str, str] = {}

    def add(self, line: int, written: Mapping[str, str]) -> None:
        """A line, with its fields by key in lower case."""
        fields = {_SYNONYMS.get(key, key): value for key, value in written.items()}
        name = fields.get("partitionname", "")
        if name.upper() == "DEFAULT":
            self._usual |= {key: value for key, value in fields.items() if key != "partitionname"}
            return
        whole = {**self._usual, **fields}
        found = self._partition(line, name, whole)
        self.found.append(found)
        self._remark_rest(line, name, whole)

    def _partition(self, line: int, name: str, fields: Mapping[str, str]) -> Partition:
        # Priority sets both, as in Slurm before 16.05.
        factor = fields.get("priorityjobfactor", fields.get("priority"))
        tier = fields.get("prioritytier", fields.get("priority", ""))
        longest = self._time(line, name, "MaxTime", fields)
        usual = self._time(line, name, "DefaultTime", fields)
        nodes = fields.get("nodes", "")
        return Partition(
            name=name,
            line=line,
            factor=None if factor is None else self._reading.amount(line, "PriorityJobFactor", factor, 0.0),
            tier=self._reading.whole(line, f"PriorityTier of '{name}'", tier, 1),
            is_default=fields.get("default", "").lower() in _YES,
            billing=self._billing(line, name, fields.get("tresbillingweights", "")),
            qos=None if fields.get("qos", "").lower() in NOT_SET else fields["qos"],
            access=_access(fields),
            nodes="" if nodes.upper() == "ALL" else nodes,
            default_time_s=longest if usual is None else usual,
        )

    def _time(self, line: int, name: str, title: str, fields: Mapping[str, str]) -> float | None:
        text = fields.get(title.lower(), "")
        if text.lower() in NOT_SET or text.lower() in _WITHOUT_LIMIT:
            return None
        try:
            return parse_duration(text) or None
        except ValueError as error:
            self._reading.refuse(line, f"{title} of '{name}': {error}")
            return None

    def _remark_rest(self, line: int, name: str, fields: Mapping[str, str]) -> None:
        for key, value in fields.items():
            if key in _HARMLESS or key in _CONVERTED or value.lower() in NOT_SET:
                continue
            if key in _ADVICE and value.lower() in _USUAL.get(key, _NOTHING):
                continue
            advice = _ADVICE.get(key, "the import does not know this field; check whether it changes who may run what")
            self._reading.remark(
                line, f"partition '{name}': no equivalent in rankd for {_title(key)}={value}; {advice}"
            )

    def _billing(self, line: int, name: str, value: str) -> dict[str, float] | None:
        if value.lower() in NOT_SET:
            return None
        try:
            weights = parse_tres(value)
        except ValueError as error:
            self._reading.refuse(line, f"TRESBillingWeights of '{name}': {error}")
            return None
        billing = {}
        for tres, (weight, suffix) in weights.items():
            resource = resource_of(tres)
            if resource is None or weight < 0:
                self._reading.remark(
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
            self._reading.remark(line, f"partition '{name}': {message}")
        return billing | {kind: billing[kind] + of_all for kind in models}


_CONVERTED = frozenset(
    {
        "partitionname", "default", "nodes", "priority", "priorityjobfactor", "prioritytier", "qos", "state",
        "rootonly", "reqresv", "allowgroups", "allowaccounts", "denyaccounts", "allowqos", "denyqos",
        "tresbillingweights",
    }
)  # fmt: skip
_TITLES = {
    "allocnodes": "AllocNodes", "defcpupergpu": "DefCpuPerGPU", "defmempercpu": "DefMemPerCPU",
    "defmempergpu": "DefMemPerGPU", "defmempernode": "DefMemPerNode", "disablerootjobs": "DisableRootJobs",
    "exclusiveuser": "ExclusiveUser", "gracetime": "GraceTime", "hidden": "Hidden", "jobdefaults": "JobDefaults",
    "maxcpuspernode": "MaxCPUsPerNode", "maxcpuspersocket": "MaxCPUsPerSocket", "maxmempercpu": "MaxMemPerCPU",
    "maxmempernode": "MaxMemPerNode", "maxnodes": "MaxNodes", "minnodes": "MinNodes", "oversubscribe": "OverSubscribe",
    "maxtime": "MaxTime", "overtimelimit": "OverTimeLimit", "preemptmode": "PreemptMode",
    "selecttypeparameters": "SelectTypeParameters",
}  # fmt: skip


def _title(key: str) -> str:
    return _TITLES.get(key, key)


def _access(fields: Mapping[str, str]) -> Access:
    closed = [f"{title}={fields[title.lower()]}" for title in ("RootOnly", "ReqResv") if _is_yes(fields, title.lower())]
    state = re.split(r"[^A-Z]", fields.get("state", "UP").upper())[0]
    closed += [f"State={fields['state']}"] if state in _CLOSED_STATES else []
    accounts = _names(fields, "allowaccounts")
    qos = _names(fields, "allowqos")
    return Access(
        groups=_names(fields, "allowgroups"),
        accounts=accounts,
        # Slurm looks at the denied ones only if there is no list of allowed ones.
        denied_accounts=_names(fields, "denyaccounts") if accounts is None else None,
        qos=qos,
        denied_qos=_names(fields, "denyqos") if qos is None else None,
        closed=tuple(closed),
    )


def _is_yes(fields: Mapping[str, str], key: str) -> bool:
    return fields.get(key, "").lower() in _YES


def _names(fields: Mapping[str, str], key: str) -> Names | None:
    """The names of a list; None for ALL, and if there is none."""
    text = fields.get(key, "")
    if text.lower() in NOT_SET or text.upper() == "ALL":
        return None
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip())) or None
