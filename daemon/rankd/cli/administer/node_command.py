"""``rankd node``: drains nodes, and lets them accept jobs again. :mod:`rankd.cli.look.nodes` shows nodes."""

from __future__ import annotations

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
    verbs = parser.add_subparsers(required=True, metavar="|".join(_TEXTS))
    for verb, text in _TEXTS.items():
        one = add_command(verbs, verb, run, text)
        one.add_argument("node", nargs="+", metavar="NODE", help="names of nodes: n1, or n[01-08],n11")
        one.add_argument("-r", "--reason", help="the reason, shown by `rankd nodes -R`")
        one.add_argument("--json", action="store_true", help="print the answer as JSON")
        add_place(one)
        add_asker(one)
        one.set_defaults(verb=f"node.{verb}")


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
