"""``rankd class create|update|delete``: takes a name and flags, or Kubernetes' manifests.

The intake checks every rule, also that only administrators may change classes.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rankd.cli.common.option import add_asker, add_command, add_place, names
from rankd.cli.common.output import telling
from rankd.cli.common.screen import print_line
from rankd.core.errors import RankdError, Refused, Unavailable

if TYPE_CHECKING:
    from rankd.bus.connection import Bus
    from rankd.cli.common.option import Subparsers
    from rankd.store.engine.reading import Row

_FLAGS = ("value", "description", "global_default", "preemption_policy")


def add_verbs(verbs: Subparsers) -> None:
    """Add the three."""
    create = add_command(verbs, "create", run_change, "Create a class, or all classes of a file of manifests.")
    update = add_command(
        verbs,
        "update",
        run_change,
        "Change a class: its description, who may use it, and whether it is the global default. Other fields stay.",
    )
    for parser in (create, update):
        parser.add_argument("name", nargs="?", metavar="NAME", help="name of the class")
        parser.add_argument(
            "-f", "--file", metavar="FILE", help="a file of Kubernetes' PriorityClass manifests; - is standard input"
        )
        parser.add_argument(
            "--value",
            type=int,
            metavar="N",
            help="points that the class adds to a job's priority; can't be changed later",
        )
        parser.add_argument("--description", metavar="TEXT", help="what the class is for")
        parser.add_argument(
            "--global-default",
            action=argparse.BooleanOptionalAction,
            help="whether jobs without a class get this class",
        )
        parser.add_argument(
            "--preemption-policy",
            metavar="POLICY",
            help="PreemptLowerPriority (default) or Never; can't be changed later",
        )
        parser.add_argument("--users", type=names, metavar="USERS", help="who may use it, with --groups; * is everyone")
        parser.add_argument("--groups", type=names, metavar="GROUPS", help="groups whose users may use it")
        _add_asking(parser)
    create.set_defaults(verb="class.create")
    update.set_defaults(verb="class.update")
    delete = add_command(verbs, "delete", run_delete, "Delete classes; jobs that name them keep their number.")
    delete.add_argument("names", nargs="+", metavar="NAME", help="names of the classes")
    _add_asking(delete)


def _add_asking(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the answers as JSON, one per line")
    add_place(parser, broker=True)
    add_asker(parser)


def run_change(arguments: argparse.Namespace) -> int:
    """Create or update classes, and print which."""
    if (arguments.name is None) == (arguments.file is None):
        raise Refused("usage", "give the NAME of a class, or --file FILE", "name")
    given = {name: getattr(arguments, name) for name in _FLAGS if getattr(arguments, name) is not None}
    if arguments.users is not None or arguments.groups is not None:
        given["access"] = {"users": arguments.users or [], "groups": arguments.groups or []}
    if arguments.file is None:
        return _ask_each(arguments, [{"name": arguments.name} | given])
    if given:
        raise Refused("usage", "a file says everything about its classes; leave the other flags out", "file")
    return _ask_each(arguments, _read(arguments.file))


def run_delete(arguments: argparse.Namespace) -> int:
    """Delete classes, and print which."""
    arguments.verb = "class.delete"
    return _ask_each(arguments, [{"name": name} for name in arguments.names])


def _read(file: str) -> list[Row]:
    """The classes of a file of manifests.

    Raises:
        ConfigurationError: the file has errors. It lists all of them.
        Refused: ``usage``: it is not UTF-8.
    """
    import msgspec

    from rankd.cli.common.document import read_bytes
    from rankd.config.priority_classes import read_classes_and_access

    try:
        text = read_bytes(file).decode()
    except UnicodeDecodeError as error:
        raise Refused("usage", f"{file} is not UTF-8 text: {error}", "file") from None
    classes, access = read_classes_and_access(text, file)
    listed = {name: {"access": msgspec.to_builtins(one)} for name, one in access.items()}
    return [msgspec.to_builtins(given) | listed.get(given.name, {}) for given in classes]


def _ask_each(arguments: argparse.Namespace, requests: list[Row]) -> int:
    """Send the requests one after the other on one connection. A refused request does not stop the others."""
    from rankd.cli.common.place import find
    from rankd.client.session import with_bus

    async def action(bus: Bus) -> list[Row | RankdError]:
        return [await _ask(bus, arguments, request) for request in requests]

    answers = with_bus(find(arguments), action)
    done = f"priority class {{}} {arguments.verb.removeprefix('class.')}d"
    for request, answer in zip(requests, answers, strict=True):
        if isinstance(answer, RankdError):
            print_line(f"rankd: {answer}", error=True)
            continue
        with telling(done.format(request["name"])):
            _print_line(answer) if arguments.json else print_line(done.format(request["name"]))
    return 1 if any(isinstance(answer, RankdError) for answer in answers) else 0


async def _ask(bus: Bus, arguments: argparse.Namespace, request: Row) -> Row | RankdError:
    from rankd.cli.common.session import asker
    from rankd.wire.encoding import encode

    who = asker(arguments)
    try:
        if arguments.verb == "class.update" and arguments.file is None:
            present = await bus.request(who.subject("class.show"), encode({"name": request["name"]}), dict[str, Any])
            request = present | request
        return await bus.request(who.subject(arguments.verb), encode(request), dict[str, Any])
    except Unavailable:
        raise
    except RankdError as refusal:
        return refusal


def _print_line(answer: Row) -> None:
    import msgspec

    print(msgspec.json.encode(answer).decode())
