"""``rankd node``: drains nodes, and lets them accept jobs again. :mod:`rankd.cli.look.nodes` shows nodes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rankd.cli.common.option import add_asker, add_command, add_place
from rankd.cli.common.output import telling
from rankd.cli.common.screen import print_line
from rankd.core.errors import Refused

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers

_TEXTS = {
    "drain": "Start no new jobs on these nodes. Running jobs continue.",
    "resume": "Let draining nodes accept jobs again.",
    "undrain": "The same as resume.",
}


def add_parser(subparsers: Subparsers) -> None:
    """Add ``node`` and its verbs."""
    parser = add_command(subparsers, "node", run, "Take nodes out of use, and put them back (administrators only).")
    verbs = parser.add_subparsers(required=True, metavar="|".join((*_TEXTS, "trust", "untrust")))
    for verb, text in _TEXTS.items():
        one = add_command(verbs, verb, run, text)
        one.add_argument("node", nargs="+", metavar="NODE", help="names of nodes: n1, or n[01-08],n11")
        one.add_argument("-r", "--reason", help="the reason, shown by `rankd nodes -R`")
        one.add_argument("--json", action="store_true", help="print the answer as JSON")
        add_place(one)
        add_asker(one)
        one.set_defaults(verb=f"node.{verb}")
    _add_trust(verbs)


def _add_trust(verbs: Subparsers) -> None:
    for name, is_trusted, text in (
        ("trust", True, "Let the agents of these nodes vouch for the users of their machines, on their login sockets."),
        ("untrust", False, "Let them vouch for nobody any more. Holds at once."),
    ):
        one = add_command(verbs, name, run_trust, f"{text} Needs the site's secret.")
        one.add_argument("node", nargs="+", metavar="NODE", help="names of nodes: n1, or n[01-08],n11")
        add_place(one)
        one.set_defaults(is_trusted=is_trusted)


def run(arguments: argparse.Namespace) -> int:
    """Send the request, and print the nodes that could not be changed."""
    from rankd.cli.common.session import ask
    from rankd.wire.message import NodeReply, NodeSelection

    selection = NodeSelection(nodes=_names(arguments.node), reason=arguments.reason)
    reply = ask(arguments, arguments.verb, selection, NodeReply)
    if arguments.json:
        from rankd.cli.common.table import print_json

        with telling(f"nodes that were changed: {len(reply.done)}"):
            print_json(reply)
    for failed in reply.failed:
        print_line(f"rankd: {failed.message}", error=True)
    return 1 if reply.failed else 0


def run_trust(arguments: argparse.Namespace) -> int:
    """Record it, then update the broker. A broker that can't be reached learns it at its next start."""
    from rankd.cli.administer.auth_command import make_known, site_directory, site_in
    from rankd.cli.common.place import find
    from rankd.cli.common.session import run_quietly
    from rankd.identity.site import Role
    from rankd.identity.trusted_node import set_trusted

    nodes = _names(arguments.node)
    for node in nodes:
        _check_may_vouch(node)
    place = find(arguments)
    directory = site_directory(place)
    site_in(directory)
    for node in nodes:
        set_trusted(directory, node, is_trusted=arguments.is_trusted)
    site = site_in(directory)
    if (url := place.nats) is not None:
        for node in nodes:
            run_quietly(url, partial(make_known, place, url, site, Role.NODE, node))
    for node in nodes:
        may = "may" if arguments.is_trusted else "may not"
        print_line(f"node '{node}' {may} vouch for the users of its machine")
    return 0


def _check_may_vouch(node: str) -> None:
    """Check that it can be the name of a node whose agent vouches.

    Raises:
        Refused: ``bad_name``, ``usage``: it can't.
    """
    from rankd.core.admission.node_check import check_node_name
    from rankd.wire.subject import HEAD

    check_node_name(node)
    if node == HEAD:
        raise Refused("usage", f"'{HEAD}' is the name of rankd's own gateway; give the node another name", "node")


def _names(expressions: list[str]) -> list[str]:
    """The names of all nodes in the lists.

    Raises:
        Refused: ``usage``: a text is not a node list.
    """
    from rankd.core.model.nodelist import unfold

    try:
        return [name for expression in expressions for name in unfold(expression)]
    except ValueError as error:
        raise Refused("usage", str(error), "node") from None
