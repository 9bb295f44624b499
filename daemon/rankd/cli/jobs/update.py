"""``rankd update``: changes waiting jobs (scontrol update), by id or by a filter."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from rankd.cli.common.option import add_asker, add_command, add_jobs, add_place, names
from rankd.cli.jobs.selection import act, add_report
from rankd.client.batch.option import yes_or_no
from rankd.client.pair import key_value
from rankd.core.errors import Refused

if TYPE_CHECKING:
    from rankd.cli.common.option import Subparsers
    from rankd.wire.message import JobFilter

_KEYS = ("user", "account", "queue", "partition", "state", "qos", "name")
"""Keys of ``--where``."""

_AS_GIVEN = ("queue", "partition", "qos", "account", "name", "exclusive", "requeue")
_OR_NOTHING = ("comment", "application", "priority_class", "constraints")
"""Fields that an empty text removes."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    text = "Change pending jobs, and time limits of running ones. Fields that you do not name stay as they are."
    parser = add_command(subparsers, "update", run, text)
    add_jobs(parser)
    _add_which(parser)
    _add_belonging(parser)
    _add_size(parser)
    _add_rights(parser)
    add_report(parser)
    add_place(parser)
    add_asker(parser)


def _add_which(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which jobs (with ids, only those of them; lists are separated by commas)")
    group.add_argument("-u", "--user", type=names, metavar="USERS", help="pending jobs of these users")
    group.add_argument("--me", action="store_true", help="my own pending jobs")
    group.add_argument(
        "-w", "--where", type=_key_values, action="append", default=[], metavar="KEY=VALUES",
        help=f"select jobs by {', '.join(_KEYS)}, such as queue=root.a,root.b; if there are several, all must match",
    )  # fmt: skip


def _key_values(text: str) -> tuple[str, str]:
    """``KEY=VALUES`` as a pair. A list of nodes is what Slurm's ``-w`` has."""
    if "=" in text:
        return key_value(text)
    raise argparse.ArgumentTypeError(
        f"'{text}' is not of the form KEY=VALUES; to change the nodes of a job, write -C 'rankd/node in (NODE,NODE)'"
    )


def _add_belonging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what they belong to from now on")
    group.add_argument(
        "--urgency", metavar="N", help="new urgency: 0 (hold) to 31 (before all others); over 16 needs --admin"
    )
    group.add_argument("-q", "--queue", help="move to this queue, such as root.a")
    group.add_argument("-p", "--partition", help="move to this partition")
    group.add_argument("--qos", help="new quality of service (QoS)")
    group.add_argument("-A", "--account", help="charge this account")
    group.add_argument(
        "--class", dest="priority_class", metavar="CLASS", help="new priority class; '' for the default class"
    )
    group.add_argument("--application", metavar="ID", help="new application; '' for none")
    group.add_argument("-J", "--name", "--job-name", help="new name")
    group.add_argument("--comment", help="new comment; '' for none")
    group.add_argument(
        "--array-limit", type=int, metavar="N", help="how many tasks of an array may run at a time; 0 for any number"
    )


def _add_size(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what they need")
    group.add_argument(
        "-t",
        "--time",
        metavar="LIMIT",
        help="time limit: minutes, m:s, h:m:s, d-h:m:s, 90s or 2h; +1h is an hour more, --time=-30m half an hour less;"
        " '' for the default. Running jobs too: their users may shorten it, administrators (--admin) also lengthen it",
    )
    group.add_argument("-N", "--nodes", metavar="N[-M]", help="number of nodes, or a range such as 2-4")
    group.add_argument("-c", "--cores", metavar="N", help="cores per node; 500m is half a core")
    group.add_argument("--mem", metavar="SIZE", help="memory per node: 4G is 4 GiB, 500 is 500 MiB, 0 asks for none")
    group.add_argument(
        "-G", "--gpus", metavar="N", help="GPUs of the whole job, in place of those until now: 2, or a100:2; needs -N"
    )
    group.add_argument(
        "--gpus-per-node", metavar="N", help="GPUs per node in place of those until now: 2, or a100:2; 0 asks for none"
    )
    group.add_argument(
        "--gres",
        metavar="NAME:N,...",
        help="other resources per node: GPUs replace all GPUs until now, other names only their own amount; an amount"
        " of 0 asks for none; 'none' for no GPUs",
    )
    group.add_argument(
        "-C",
        "--constraint",
        dest="constraints",
        metavar="LABELS",
        help="labels that nodes must have, such as gpu=a100; '' for any node",
    )
    group.add_argument(
        "--exclusive", action=argparse.BooleanOptionalAction, help="use whole nodes, shared with no other job"
    )
    group.add_argument(
        "-b", "--begin", metavar="TIME", help="start no earlier than this: now+2hours, 16:30; now removes the limit"
    )
    group.add_argument(
        "-d", "--dependency", metavar="LIST", help="wait for other jobs: afterok:1:2,afterany:3; '' for none"
    )
    group.add_argument(
        "--kill-on-invalid-dep",
        type=yes_or_no,
        nargs="?",
        const="yes",
        metavar="yes|no",
        help="whether the job is cancelled once a dependency can't be met any more",
    )
    group.add_argument(
        "--requeue", action=argparse.BooleanOptionalAction, help="whether the job is queued again if its node is lost"
    )


def _add_rights(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("administrators")
    group.add_argument("--fix-priority", type=int, metavar="N", help="fix the priority at N, whatever the factors give")
    group.add_argument("--unfix", action="store_true", help="remove the fixed priority; the factors count again")


def run(arguments: argparse.Namespace) -> int:
    """Send the request, and print the jobs that could not be changed."""
    from rankd.wire.job_update import JobUpdate

    changed = fields(arguments, time.time())
    if not changed:
        raise Refused("usage", "what is to change? name a field, such as --queue or --urgency", "field")
    ids = [number for group in arguments.job for number in group]
    chosen = wanted(arguments, ids)
    which = {"ids": ids} if chosen is None else {"filter": chosen}
    return act(arguments, "job.update", JobUpdate(**which, dry_run=arguments.dry_run, **changed))


def wanted(arguments: argparse.Namespace, ids: list[int]) -> JobFilter | None:
    """The filter. It selects pending jobs unless it names states. None if only ids are given.

    Raises:
        Refused: ``usage``: there is neither an id nor a filter, or a key or state is unknown.
    """
    from rankd.cli.look.queue import job_filter

    given: dict[str, list[str]] = {}
    for key, text in arguments.where:
        if key not in _KEYS:
            raise Refused("usage", f"--where {key}: unknown; known: {', '.join(_KEYS)}", "where")
        if key in given:
            raise Refused("usage", f"--where {key} is given twice; write {key}=A,B", "where")
        given[key] = names(text)
    if arguments.user and "user" in given:
        raise Refused("usage", "give --user or --where user=…, not both", "where")
    if not (given or arguments.user or arguments.me):
        if not ids:
            raise Refused("usage", "which jobs? give numbers, or --me, --user or --where KEY=VALUES", "job")
        return None
    chosen = {key: given.get(key) for key in _KEYS} | {"states": given.get("state") or ["pending"], "jobs": ids or None}
    chosen["user"] = arguments.user or given.get("user")
    return job_filter(argparse.Namespace(**{**vars(arguments), **chosen}))


def fields(arguments: argparse.Namespace, now: float) -> dict[str, Any]:
    """The fields to change.

    Raises:
        Refused: ``usage``: a value that can't be read, or both of --fix-priority and --unfix.
    """
    from rankd.client.batch.request import parse_urgency

    if arguments.unfix and arguments.fix_priority is not None:
        raise Refused("usage", "give --fix-priority or --unfix, not both", "fix_priority")
    changed = {name: getattr(arguments, name) for name in _AS_GIVEN if getattr(arguments, name) is not None}
    changed |= {name: getattr(arguments, name) or None for name in _OR_NOTHING if getattr(arguments, name) is not None}
    if arguments.array_limit is not None:
        changed["array_limit"] = arguments.array_limit or None
    if arguments.urgency is not None:
        changed["urgency"] = parse_urgency(arguments.urgency)
    if arguments.unfix or arguments.fix_priority is not None:
        changed["fixed_priority"] = arguments.fix_priority
    return changed | _size(arguments) | _conditions(arguments, now)


def _size(arguments: argparse.Namespace) -> dict[str, Any]:
    """The number of nodes, and the named amounts per node. An amount of 0 is removed.

    Raises:
        Refused: ``usage``.
    """
    from rankd.client.batch.generic_resource import changed_amounts
    from rankd.client.batch.request import parse_cores, parse_memory, parse_nodes

    nodes = None if arguments.nodes is None else parse_nodes(arguments.nodes)
    if arguments.gpus is not None and nodes is None:
        message = "--gpus counts the GPUs of all nodes; also name the number of nodes, such as -N 1, or --gpus-per-node"
        raise Refused("usage", message, "gpus")
    gpus = (arguments.gpus, nodes[1]) if nodes else None
    amounts: dict[str, Any] = dict(changed_amounts(arguments.gres, arguments.gpus_per_node, gpus))
    if arguments.cores is not None:
        amounts["vcore"] = parse_cores(arguments.cores)
    if arguments.mem is not None:
        amounts["memory"] = parse_memory(arguments.mem) if arguments.mem != "0" else 0
    size: dict[str, Any] = {}
    if amounts:
        size["resources"] = {kind: amount or None for kind, amount in amounts.items()}
    if nodes is not None:
        least, most = nodes
        size |= {"nodes": most, "min_nodes": None if least == most else least}
    return size


def _conditions(arguments: argparse.Namespace, now: float) -> dict[str, Any]:
    """Time limit, begin time and dependencies."""
    import msgspec

    from rankd.client.batch.dependency import parse_dependencies
    from rankd.client.instant import parse_time
    from rankd.core.model.job import Dependency
    from rankd.core.submission.duration import UNLIMITED, parse_duration

    given: dict[str, Any] = {}
    if arguments.time and arguments.time[0] in "+-" and arguments.time not in UNLIMITED:
        if (seconds := parse_duration(arguments.time[1:])) is None:
            raise Refused("usage", f"--time {arguments.time}: no limit can't be added; write --time=''", "time")
        given["add_time_limit_s"] = seconds if arguments.time[0] == "+" else -seconds
    elif arguments.time is not None:
        given["time_limit_s"] = parse_duration(arguments.time) if arguments.time else None
    if arguments.begin is not None:
        given["begin_at"] = None if arguments.begin in ("", "now") else parse_time(arguments.begin, now, "future")
    if arguments.dependency is not None:
        found = parse_dependencies(arguments.dependency) if arguments.dependency else []
        given["depends_on"] = msgspec.convert(found, list[Dependency])
    if arguments.kill_on_invalid_dep is not None:
        given["cancel_if_unmet"] = arguments.kill_on_invalid_dep == "yes"
    return given
