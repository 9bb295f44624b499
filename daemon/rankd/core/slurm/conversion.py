"""The conversion of Slurm's files to the content of rankd's configuration. Pure: it writes no files.

The account tree comes from one file: a dump, else a table of associations, else ``sshare``. The others add values that
this file does not have (usage from ``sshare``). If they disagree, there is a remark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rankd.core.errors import ConfigurationError, Problem
from rankd.core.fairshare.tree import AccountTree
from rankd.core.model.association import Association
from rankd.core.model.device import model_of
from rankd.core.model.setting import Qos
from rankd.core.slurm.assoc import parse_associations, parse_shares
from rankd.core.slurm.config import Partition, SlurmConfig, Value, parse_config
from rankd.core.slurm.identify import NAMES, Kind, kind_of
from rankd.core.slurm.limit import QueueLimits, UserLimit, queue_limits, remark_unused, user_limits
from rankd.core.slurm.node import known_nodes
from rankd.core.slurm.qos import parse_qos
from rankd.core.slurm.reading import Accounting, Limit, Reading, Remark, naming, said
from rankd.core.slurm.sacctmgr_dump import parse_dump

DEFAULT_QUEUE = "default"
_ORDER: tuple[Kind, ...] = ("dump", "associations", "shares")
_QUEUE_NAME = re.compile(r"[A-Za-z0-9_:#/@-]{1,64}")
_ROW = re.compile(r"associations\[(\d+)\]\.?")


class SourceText(msgspec.Struct, frozen=True, kw_only=True):
    """A file.

    ``name``: for messages. ``at``: when it was written, UTC seconds; the usage of ``sshare`` is of that time.
    """

    name: str
    text: str
    at: float


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A leaf queue made from a partition."""

    name: str
    factor: float | None
    limits: QueueLimits = QueueLimits()


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a configuration directory, and remarks about values that could not be converted.

    ``sources``: the format of each file. ``usage``: the associations of users with usage that is not 0. ``known``: the
    nodes, and the most that each may offer, in cores, bytes and pieces.
    """

    sources: tuple[tuple[str, Kind], ...]
    associations: tuple[Association, ...]
    usage: tuple[Association, ...]
    qos: tuple[Qos, ...]
    default_qos: str
    weights: Mapping[str, float]
    settings: Mapping[str, Value]
    billing: Mapping[str, float]
    queues: tuple[Queue, ...]
    limits: tuple[UserLimit, ...]
    known: Mapping[str, Mapping[str, int]]
    remarks: tuple[Remark, ...]


class _Parsed(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    source: SourceText
    reading: Reading
    accounting: Accounting
    config: SlurmConfig


def convert_slurm(sources: Sequence[SourceText], cluster: str = "") -> Conversion:
    """The conversion of all files together.

    Raises:
        ConfigurationError: with all lines of all files that can't be read.
    """
    problems: list[Problem] = []
    parsed: list[_Parsed] = []
    for source in sources:
        found = _parse(source, cluster)
        problems += found if isinstance(found, list) else found.reading.problems
        if not isinstance(found, list):
            parsed.append(found)
    own = Reading("import")
    if not problems:
        conversion = _combined(parsed, own)
        problems = own.problems + _tree_problems(parsed)
    if problems:
        raise ConfigurationError(problems)
    return conversion


def _parse(source: SourceText, cluster: str) -> _Parsed | list[Problem]:
    kind = kind_of(source.text)
    if kind is None:
        known = "; ".join(f"`{command}`" for command in (*NAMES.values(), "scontrol show partition"))
        message = f"is not one of the outputs that can be read (with their headers): {known}"
        return [Problem(file=source.name, path="", message=message)]
    reading = Reading(source.name)
    accounting, config = Accounting(), SlurmConfig()
    if kind == "dump":
        accounting = parse_dump(source.text, reading)
    elif kind == "associations":
        accounting = parse_associations(source.text, reading, cluster)
    elif kind == "shares":
        accounting = parse_shares(source.text, reading, cluster)
    elif kind == "qos":
        accounting = parse_qos(source.text, reading)
    else:
        config = parse_config(source.text, reading)
    return _Parsed(kind=kind, source=source, reading=reading, accounting=accounting, config=config)


def _trees(parsed: Iterable[_Parsed]) -> list[_Parsed]:
    """The files with an account tree. The first one is used for the tree."""
    found = [one for one in parsed if one.kind in _ORDER]
    return sorted(found, key=lambda one: _ORDER.index(one.kind))


def _combined(parsed: list[_Parsed], own: Reading) -> Conversion:
    trees = _trees(parsed)
    associations = trees[0].accounting.associations if trees else ()
    for other in trees[1:]:
        _compare(trees[0], other)
    qos = _qos(parsed)
    default_qos = _default_qos(parsed, qos, own)
    configs = [one for one in parsed if one.kind == "config"]
    partitions = [partition for one in parsed for partition in one.config.partitions]
    settings = {key: value for one in configs for key, value in one.config.settings.items()}
    of_qos = [(limit, one.reading) for one in _with_qos(parsed) for limit in one.accounting.qos_limits]
    of_users = [(limit, one.reading) for one in trees[:1] for limit in one.accounting.user_limits]
    remark_unused({partition.qos or "" for partition in partitions}, of_qos)
    queues, billing = _queues(partitions, of_qos, own), _billing(partitions, own)
    known = known_nodes([line for one in configs for line in one.config.nodes])
    if known:
        own.remark(0, f"only these nodes may join ([nodes] known in rankd.toml): {', '.join(known)[:200]}")
    weights = {name: weight for one in configs for name, weight in one.config.weights.items()}
    limits = user_limits(associations, of_users)
    _remark_models([*billing, *(name.partition(".")[2] for name in weights)], queues, limits, own)
    return Conversion(
        sources=tuple((one.source.name, one.kind) for one in parsed),
        associations=associations,
        usage=_usage(trees, associations),
        qos=qos,
        default_qos=default_qos,
        weights=weights,
        settings=settings,
        billing=billing,
        queues=queues,
        limits=limits,
        known=known,
        remarks=tuple(remark for one in parsed for remark in one.reading.remarks) + tuple(own.remarks),
    )


def _compare(taken: _Parsed, other: _Parsed) -> None:
    """Remark on differences between the tree of another file and the tree that is used."""
    known = {(entry.account, entry.user): entry for entry in taken.accounting.associations}
    for entry, line in zip(other.accounting.associations, other.accounting.lines, strict=True):
        same = known.get((entry.account, entry.user))
        if same is None:
            message = f"{naming(entry)} is left out: it is not in {taken.source.name}, which has the tree that is used"
            other.reading.remark(line, message)
        elif same.shares != entry.shares:
            message = (
                f"{naming(entry)} has {said(entry.shares)} shares here and {said(same.shares)} in {taken.source.name}"
            )
            other.reading.remark(line, f"{message}; the latter are used")


def _usage(trees: list[_Parsed], associations: Iterable[Association]) -> tuple[Association, ...]:
    known = {(entry.account, entry.user) for entry in associations}
    return tuple(
        msgspec.structs.replace(entry, usage_at=one.source.at)
        for one in trees
        if one.kind == "shares"
        for entry in one.accounting.associations
        if entry.usage and (entry.account, entry.user) in known
    )


def _with_qos(parsed: Iterable[_Parsed]) -> list[_Parsed]:
    """The file whose QoS are used: a table of QoS, else a dump. Empty if there is neither."""
    found = {one.kind: one for one in parsed if one.accounting.qos}
    return [found[kind] for kind in ("qos", "dump") if kind in found][:1]


def _qos(parsed: Iterable[_Parsed]) -> tuple[Qos, ...]:
    """The QoS. Without any, there is one: ``normal``."""
    return next((one.accounting.qos for one in _with_qos(parsed)), (Qos(name="normal"),))


def _default_qos(parsed: Iterable[_Parsed], qos: Sequence[Qos], own: Reading) -> str:
    names = [one.name for one in qos]
    for wanted in (one.accounting.default_qos for one in parsed):
        if wanted in names:
            return str(wanted)
        if wanted:
            own.remark(0, f"the default QoS '{wanted}' is in none of the files; give `sacctmgr -P show qos` as well")
    return "normal" if "normal" in names else names[0]


def _queues(
    partitions: Sequence[Partition], of_qos: Sequence[tuple[Limit, Reading]], own: Reading
) -> tuple[Queue, ...]:
    """A leaf for each partition with the limits of its QoS, and the default queue for jobs that name none."""
    by_qos = {qos: queue_limits(qos, of_qos) for qos in dict.fromkeys(one.qos for one in partitions)}
    queues: dict[str, Queue] = {}
    default: Partition | None = None
    for partition in partitions:
        name = re.sub(r"[^A-Za-z0-9_:#/@-]", "-", partition.name)[:64]
        if name.lower() in queues or not _QUEUE_NAME.fullmatch(name):
            own.remark(0, f"partition '{partition.name}' can't be a queue of its own: there is '{name}' already")
            continue
        if name != partition.name:
            own.remark(0, f"partition '{partition.name}' becomes the queue '{name}'")
        queues[name.lower()] = Queue(name=name, factor=partition.factor, limits=by_qos[partition.qos])
        default = partition if partition.is_default else default
    if DEFAULT_QUEUE not in queues:
        factor = default.factor if default else None
        limits = by_qos[default.qos] if default else QueueLimits()
        queues[DEFAULT_QUEUE] = Queue(name=DEFAULT_QUEUE, factor=factor, limits=limits)
        if default:
            message = f"jobs that name no queue go to root.default; it has the factor of '{default.name}'"
            own.remark(0, message)
    _remark_shared(queues.values(), partitions, own)
    return tuple(queues.values())


def _remark_models(kinds: Iterable[str], queues: Iterable[Queue], limits: Iterable[UserLimit], own: Reading) -> None:
    """Remark on models of GPUs, since agents may name them in another way than the site did for Slurm."""
    limited = [one for queue in queues for one in (queue.limits.maximum, queue.limits.each_user)]
    limited += [limit.amounts for limit in limits]
    named = {model_of(kind) for kind in (*kinds, *(kind for amounts in limited for kind in amounts))} - {None}
    if named:
        shown = ", ".join(sorted(filter(None, named)))
        own.remark(0, f"models of GPUs: {shown}; compare them with the names that agents give (rankd nodes --devices)")


def _remark_shared(queues: Iterable[Queue], partitions: Iterable[Partition], own: Reading) -> None:
    """Remark on a limit that Slurm counts over several partitions, and rankd in each queue by itself."""
    limited = [queue.name for queue in queues if queue.limits != QueueLimits()]
    names = [partition.qos for partition in partitions if partition.qos]
    if limited and (len(limited) > 1 or len(names) != len(set(names))):
        own.remark(0, f"limits of the partitions' QoS count in each queue by itself: {', '.join(limited)}")


def _billing(partitions: Sequence[Partition], own: Reading) -> dict[str, float]:
    """The billing weights of the default partition, else of the first with any. rankd has one table for all queues."""
    with_weights = [partition for partition in partitions if partition.billing]
    if not with_weights:
        return {}
    taken = next((partition for partition in with_weights if partition.is_default), with_weights[0])
    for other in partitions:
        if other.billing != taken.billing:
            own.remark(0, f"TRESBillingWeights of '{other.name}' differ; those of '{taken.name}' are used for all")
    return dict(taken.billing or {})


def _tree_problems(parsed: list[_Parsed]) -> list[Problem]:
    """The problems of the associations as a tree, with their lines."""
    trees = _trees(parsed)
    if not trees:
        return []
    try:
        AccountTree.build(trees[0].accounting.associations)
    except ConfigurationError as error:
        return [_at_line(problem, trees[0]) for problem in error.problems]
    return []


def _at_line(problem: Problem, parsed: _Parsed) -> Problem:
    match = _ROW.match(problem.path)
    line = parsed.accounting.lines[int(match.group(1))] if match else 0
    return Problem(file=parsed.source.name, line=line, path="", message=problem.message)
