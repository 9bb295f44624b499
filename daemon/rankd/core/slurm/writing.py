"""The files of a configuration directory from a conversion: rankd.toml, accounts.yaml, queues.yaml, usage.csv."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from rankd.core.model.association import ROOT, Association
from rankd.core.model.quantity import MEMORY
from rankd.core.model.setting import DEFAULT_WEIGHTS
from rankd.core.slurm.config import Value
from rankd.core.slurm.conversion import Conversion
from rankd.core.slurm.precedence import of_each_user
from rankd.core.slurm.queue import Queue
from rankd.core.slurm.queue_access import EVERYONE
from rankd.core.slurm.reading import Shares

USAGE_FILE = "usage.csv"

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SECTIONS = ("site", "priority", "priority.fairshare", "scheduling", "admission", "privacy", "node")


def write_files(conversion: Conversion) -> dict[str, str]:
    """The texts by file name."""
    files = {
        "rankd.toml": "".join(f"{line}\n" for line in _settings(conversion)),
        "accounts.yaml": "".join(f"{line}\n" for line in _accounts(conversion)),
        "queues.yaml": "".join(f"{line}\n" for line in _queues(conversion)),
    }
    if conversion.usage:
        files[USAGE_FILE] = "".join(f"{line}\n" for line in _usage(conversion))
    return files


def _settings(conversion: Conversion) -> Iterator[str]:
    yield f"# Made by `rankd import slurm` of {', '.join(name for name, _ in conversion.sources)}."
    yield f"default_qos = {json.dumps(conversion.default_qos)}"
    values = conversion.settings
    for section in _SECTIONS:
        inside = {key: value for key, value in values.items() if key.rpartition(".")[0] == section}
        if inside or (section == "priority.fairshare" and conversion.billing):
            yield from ["", f"[{section}]", *(f"{key.rpartition('.')[2]} = {_toml(v)}" for key, v in inside.items())]
        if section == "priority.fairshare" and conversion.billing:
            yield f"billing = {_table(conversion.billing)}"
        if section == "priority" and conversion.weights:
            yield from ["", "[priority.weights]", *(f"{_key(k)} = {_number(w)}" for k, w in _ordered(conversion))]
    if conversion.known:
        yield from ["", "# Other nodes are refused. Remove this table to let all nodes join.", "[nodes.known]"]
        yield from (f"{_key(names)} = {_amounts(most)}" for names, most in conversion.known.items())
    for qos in conversion.qos:
        yield from ["", "[[qos]]", f"name = {json.dumps(qos.name)}", f"priority = {qos.priority}"]
        yield f"usage_factor = {_number(qos.usage_factor)}"
        if qos.users is not None:
            yield f"users = {json.dumps(qos.users)}"
    if conversion.usage:
        yield from ["", "# What was used before; it fades from the time that is written beside it.", "[[adapters]]"]
        yield from ['name = "slurm-usage"', 'input = "usage"', 'adapter = "file"', "period_s = 3600"]
        yield f'options = {{ path = "{USAGE_FILE}" }}'


def _ordered(conversion: Conversion) -> list[tuple[str, float]]:
    """The weights in the order of rankd's defaults, then the others."""
    places = {name: place for place, name in enumerate(DEFAULT_WEIGHTS)}
    return sorted(conversion.weights.items(), key=lambda pair: places.get(pair[0], len(places)))


def _accounts(conversion: Conversion) -> Iterator[str]:
    yield "# Made by `rankd import slurm`."
    users: dict[str, list[Association]] = {}
    for entry in conversion.associations:
        if entry.user is not None:
            users.setdefault(entry.account, []).append(entry)
    accounts = [entry for entry in conversion.associations if entry.user is None]
    yield "accounts:" if accounts else "accounts: []"
    for account in accounts:
        yield f"  - name: {_yaml(account.account)}"
        yield f"    parent: {_yaml(account.parent or ROOT)}"
        yield f"    shares: {_shares(account.shares)}"
        if account.priority:
            yield f"    priority: {account.priority}"
        if account.account in users:
            yield "    users:"
            yield from (f"      - {_user(user)}" for user in users[account.account])
    if ROOT in users:
        yield "users:"
        yield from (f"  - {_user(user)}" for user in users[ROOT])
    if conversion.group_limits:
        yield "# The users of accounts with limits. rankd gives these users no groups of the machine."
        yield "groups:"
        for group in conversion.group_limits:
            yield f"  - {{name: {_yaml(group.group)}, users: [{', '.join(map(_yaml, group.users))}]}}"


def _user(entry: Association) -> str:
    parts = [f"name: {_yaml(entry.user or '')}", f"shares: {_shares(entry.shares)}"]
    parts += [f"priority: {entry.priority}"] if entry.priority else []
    parts += ["default: true"] if entry.default else []
    return f"{{{', '.join(parts)}}}"


def _queues(conversion: Conversion) -> Iterator[str]:
    yield "# Made by `rankd import slurm`: a queue for each partition."
    yield "partitions:"
    names = dict.fromkeys(["default", *(queue.partition for queue in conversion.queues)])
    restricted = {queue.partition for queue in conversion.queues if queue.access != EVERYONE}
    for name in names:
        queues = [queue for queue in conversion.queues if queue.partition == name]
        if queues:
            yield from [f"  - name: {_yaml(name)}", "    queues:", "      - name: root", *_root_limits(conversion)]
            yield "        queues:"
        for queue in queues:
            yield from _queue(queue, is_restricted=name in restricted)


def _root_limits(conversion: Conversion) -> Iterator[str]:
    if conversion.limits or conversion.group_limits:
        yield "        limits:"
    for user in conversion.limits:
        yield f"          - {{users: [{_yaml(user.user)}]{_limited(user.amounts, user.jobs)}}}"
    for group in conversion.group_limits:
        yield f"          - {{groups: [{_yaml(group.group)}]{_limited(group.amounts, group.jobs)}}}"


def _queue(queue: Queue, *, is_restricted: bool) -> Iterator[str]:
    yield f"          - name: {_yaml(queue.name)}"
    properties = [] if queue.factor is None else [f'priority.factor: "{_number(queue.factor)}"']
    properties += [f'priority.offset: "{queue.offset}"'] if queue.offset else []
    if properties:
        yield f"            properties: {{{', '.join(properties)}}}"
    if is_restricted:
        yield f"            submitacl: {json.dumps(queue.access)}"
    limits = queue.limits
    if limits.maximum:
        yield f"            resources: {{max: {_quantities(limits.maximum)}}}"
    if limits.jobs:
        yield f"            maxapplications: {limits.jobs}"
    written = [f"{{users: [{_yaml(user)}]{_limited(amounts, jobs)}}}" for user, amounts, jobs in of_each_user(queue)]
    written += [f"{{groups: [{_yaml(one.group)}]{_limited(one.amounts, one.jobs)}}}" for one in queue.groups]
    if limits.each_user or limits.jobs_of_each_user:
        written.append(f'{{users: ["*"]{_limited(limits.each_user, limits.jobs_of_each_user)}}}')
    if written:
        yield f"            limits: [{', '.join(written)}]"


def _limited(amounts: Mapping[str, int], jobs: int) -> str:
    """The rest of a limit in YAML."""
    resources = f", maxresources: {_quantities(amounts)}" if amounts else ""
    return f"{resources}{f', maxapplications: {jobs}' if jobs else ''}"


def _amounts(amounts: Mapping[str, int]) -> str:
    """A table of TOML. Memory is in MiB, if it is whole."""
    parts = (f"{_key(kind)} = {json.dumps(_sized(kind, amount))}" for kind, amount in amounts.items())
    return f"{{ {', '.join(parts)} }}" if amounts else "{}"


def _quantities(amounts: Mapping[str, int]) -> str:
    """A mapping of YAML, with the quantities of YuniKorn."""
    parts = (f"{json.dumps(kind)}: {_sized(kind, amount)}" for kind, amount in amounts.items())
    return f"{{{', '.join(parts)}}}"


def _sized(kind: str, amount: int) -> int | str:
    """Memory with the largest suffix that keeps it whole."""
    if kind == MEMORY and amount:
        for suffix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20)):
            if amount % size == 0:
                return f"{amount // size}{suffix}"
    return amount


def _usage(conversion: Conversion) -> Iterator[str]:
    yield "account,user,usage,usage_at"
    for entry in conversion.usage:
        cells = (entry.account, entry.user or "", _number(entry.usage), _number(entry.usage_at or 0.0))
        yield ",".join(_csv(cell) for cell in cells)


def _csv(cell: str) -> str:
    quoted = cell.replace('"', '""')
    return f'"{quoted}"' if re.search(r'[",\r\n]', cell) else cell


def _yaml(text: str) -> str:
    """A name in YAML, with quotes if it could be read as something else."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text)


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else json.dumps(text)


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number(value) if isinstance(value, float) else json.dumps(value)


def _table(numbers: Mapping[str, float]) -> str:
    return "{ " + ", ".join(f"{_key(name)} = {_number(number)}" for name, number in numbers.items()) + " }"


def _shares(shares: Shares) -> str:
    return "parent" if shares == "parent" else _number(shares)


def _number(value: float) -> str:
    """The number with all its digits. A whole number has no decimal point."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
