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
from rankd.core.model.device import GPU, is_device_kind, model_of
from rankd.core.model.setting import Qos
from rankd.core.slurm.account_limit import account_limits
from rankd.core.slurm.assoc import parse_associations, parse_shares
from rankd.core.slurm.config import SlurmConfig, Value, parse_config
from rankd.core.slurm.enforcement import Enforcement
from rankd.core.slurm.identify import NAMES, OTHER_FILES, Kind, kind_of
from rankd.core.slurm.limit import GroupLimit, UserLimit, remark_unused, user_limits
from rankd.core.slurm.node import known_nodes
from rankd.core.slurm.node_partition import Placed, node_partitions
from rankd.core.slurm.partition import Partition
from rankd.core.slurm.precedence import divide
from rankd.core.slurm.qos import parse_qos
from rankd.core.slurm.qos_access import users_of_qos
from rankd.core.slurm.queue import Queue, Rules, make_queues
from rankd.core.slurm.queue_access import members
from rankd.core.slurm.reading import Accounting, Reading, Remark, naming, said
from rankd.core.slurm.sacctmgr_dump import parse_dump
from rankd.core.slurm.site_setting import Site, enforcement, site_settings, staff

_ORDER: tuple[Kind, ...] = ("dump", "associations", "shares")
_ROW = re.compile(r"associations\[(\d+)\]\.?")


class SourceText(msgspec.Struct, frozen=True, kw_only=True):
    """A file.

    ``name``: for messages. ``at``: when it was written, UTC seconds; the usage of ``sshare`` is of that time.
    """

    name: str
    text: str
    at: float


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
    group_limits: tuple[GroupLimit, ...]
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
    own = Reading("import")
    for source in sources:
        if source.name in OTHER_FILES:
            own.remark(0, f"{source.name} is left out; {OTHER_FILES[source.name]}")
            continue
        found = _parse(source, cluster)
        problems += found if isinstance(found, list) else found.reading.problems
        if not isinstance(found, list):
            parsed.append(found)
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
    configs = [one for one in parsed if one.kind == "config"]
    enforced = enforcement([one.config for one in configs], own)
    limits = _Limits(parsed, trees, enforced, own)
    qos = _qos(parsed)
    default_qos = _default_qos(parsed, qos, own)
    lists = trees[0].accounting.qos_lists if trees and enforced.qos else {}
    may_use = users_of_qos(associations, lists, [one.name for one in qos], own)
    known_users = members(associations, may_use)
    weights = {name: weight for one in configs for name, weight in one.config.weights.items()}
    partitions = [(partition, one.reading) for one in configs for partition in one.config.partitions]
    queues, known = _placed(partitions, configs, Rules(of_qos=limits.of_qos, members=known_users, weights=weights), own)
    settings = site_settings(Site([one.config for one in configs], enforced, bool(associations)), partitions, own)
    settings |= staff([one.accounting for one in trees[:1]], own)
    billing = _billing([one for one, _ in partitions], own)
    of_users = user_limits(associations, limits.of_users)
    groups = [name for one, _ in partitions for name in one.access.groups or ()]
    of_groups = account_limits(known_users.accounts_of, limits.of_accounts, groups)
    _remark_models(_kinds(billing, configs, weights), queues, [*of_users, *of_groups], own)
    queues, of_users, of_groups = divide(queues, of_users, of_groups, own)
    if (of_users or of_groups) and len(names := {queue.partition for queue in queues}) > 1:
        own.remark(0, f"limits of users and accounts count in each partition by itself: {', '.join(sorted(names))}")
    remark_unused({one.qos or "" for one, _ in partitions}, limits.of_qos)
    return Conversion(
        sources=tuple((one.source.name, one.kind) for one in parsed),
        associations=associations,
        usage=_usage(trees, associations),
        qos=_restricted(qos, default_qos, may_use, own),
        default_qos=default_qos,
        weights=weights,
        settings=settings,
        billing=billing,
        queues=queues,
        limits=of_users,
        group_limits=of_groups,
        known=known,
        remarks=(*(remark for one in parsed for remark in one.reading.by_line()), *own.remarks),
    )


class _Limits:
    """The limits of the accounting, with the files that have them. Empty if Slurm enforces no limits."""

    def __init__(self, parsed: list[_Parsed], trees: list[_Parsed], enforced: Enforcement, own: Reading) -> None:
        self.of_qos = [(limit, one.reading) for one in _with_qos(parsed) for limit in one.accounting.qos_limits]
        self.of_users = [(limit, one.reading) for one in trees[:1] for limit in one.accounting.user_limits]
        self.of_accounts = [(limit, one.reading) for one in trees[:1] for limit in one.accounting.account_limits]
        number = len(self.of_qos) + len(self.of_users) + len(self.of_accounts)
        if number and not enforced.limits:
            message = f"Slurm enforces no limits (AccountingStorageEnforce), so {number} limits are left out"
            own.remark(0, f"{message}; import with `AccountingStorageEnforce=limits` in slurm.conf to have them")
            self.of_qos, self.of_users, self.of_accounts = [], [], []


def _placed(
    partitions: Sequence[Placed], configs: Sequence[_Parsed], rules: Rules, own: Reading
) -> tuple[tuple[Queue, ...], dict[str, Mapping[str, int]]]:
    """The queues, and the nodes that may join. In Slurm, a node in no partition runs no jobs."""
    lines = [line for one in configs for line in one.config.nodes]
    where = node_partitions(partitions, (name for line in lines for name in line.names), own)
    used = frozenset().union(*where.nodes.values()) if where.nodes else None
    known = known_nodes(lines, used)
    if known:
        own.remark(0, f"only these nodes may join ([nodes] known in rankd.toml): {', '.join(known)[:200]}")
    return make_queues(partitions, msgspec.structs.replace(rules, where=where), own), known


def _restricted(
    qos: Sequence[Qos], default_qos: str, may_use: Mapping[str, frozenset[str] | None], own: Reading
) -> tuple[Qos, ...]:
    """The QoS with the users who may use them. The default one stays open, as jobs that name none have it."""
    if may_use.get(default_qos) is not None:
        own.remark(0, f"all users may use the QoS '{default_qos}', as jobs that name none have it (default_qos)")
    return tuple(
        one
        if one.name == default_qos or (users := may_use[one.name]) is None
        else msgspec.structs.replace(one, users=sorted(users))
        for one in qos
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


def _kinds(billing: Iterable[str], configs: Iterable[_Parsed], weights: Iterable[str]) -> list[str]:
    """The types of resources in prices, in Gres of nodes, in gres.conf, and in weights."""
    files = [one.config for one in configs]
    models = [
        model for file in files for model in (*file.models, *(name for line in file.nodes for name in line.models))
    ]
    return [*billing, *(f"{GPU}:{model}" for model in models), *(name.partition(".")[2] for name in weights)]


def _remark_models(
    kinds: Iterable[str], queues: Iterable[Queue], limits: Iterable[UserLimit | GroupLimit], own: Reading
) -> None:
    """Remark on models of GPUs, since agents may name them in another way than the site did for Slurm."""
    limited = [one for queue in queues for one in (queue.limits.maximum, queue.limits.each_user)]
    limited += [limit.amounts for limit in limits]
    named = {model_of(kind) for kind in (*kinds, *(kind for amounts in limited for kind in amounts))} - {None}
    if named:
        shown = ", ".join(sorted(filter(None, named)))
        own.remark(0, f"models of GPUs: {shown}; compare them with the names that agents give (rankd nodes --devices)")


def _billing(partitions: Sequence[Partition], own: Reading) -> dict[str, float]:
    """The billing weights of the default partition, else of the first with any. rankd has one table for all queues."""
    with_weights = [partition for partition in partitions if partition.billing]
    if not with_weights:
        return {}
    taken = next((partition for partition in with_weights if partition.is_default), with_weights[0])
    if others := [one.name for one in partitions if one.billing != taken.billing]:
        shown = ", ".join(f"'{name}'" for name in others)[:200]
        own.remark(0, f"TRESBillingWeights of {shown} differ or are not set; those of '{taken.name}' are used for all")
    return _with_devices(taken, with_weights, own)


def _with_devices(taken: Partition, others: Sequence[Partition], own: Reading) -> dict[str, float]:
    """The weights of a partition. If it weighs no GPUs, those of the first partition that does are added."""
    weights = dict(taken.billing or {})
    if any(is_device_kind(kind) for kind in weights):
        return weights
    for other in others:
        of_devices = {kind: weight for kind, weight in (other.billing or {}).items() if is_device_kind(kind)}
        if of_devices:
            shown = ", ".join(f"{kind} = {weight:g}" for kind, weight in of_devices.items())
            own.remark(0, f"'{taken.name}' weighs no GPUs, so the weights of '{other.name}' are used for them: {shown}")
            return weights | of_devices
    return weights


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
