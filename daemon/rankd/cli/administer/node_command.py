"""``rankd node``: drains nodes and single devices, lets them accept jobs again, and lets new nodes in.

:mod:`rankd.cli.look.nodes` shows nodes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rankd.cli.administer import auth_invite
from rankd.cli.common.option import add_asker, add_command, add_place
from rankd.cli.common.output import telling
from rankd.cli.common.screen import print_line
from rankd.core.errors import RankdError, Refused

if TYPE_CHECKING:
    import argparse

    from rankd.cli.common.option import Subparsers

ENROL = "enrol"
MOST_DEVICES = 1_000
"""Devices that one command changes: each is a request of its own."""
_INDICES = re.compile(r"[0-9]+(?:[-,][0-9]+)+")
_TEXTS = {
    "drain": "Start no new jobs on these nodes. Running jobs continue.",
    "resume": "Let draining nodes accept jobs again.",
    "undrain": "The same as resume.",
}

_DEVICE_TEXTS = {
    "drain": "Start no new jobs on a device, such as a GPU. A running job keeps it.",
    "resume": "Offer a device again that is drained or has failed, after its error has been dealt with.",
    "fail": "Record that a device has failed, as if its driver had reported it: to rehearse a failure on simulated"
    " nodes, or for a card that you know to be broken.",
}


def add_parser(subparsers: Subparsers) -> None:
    """Add ``node`` and its verbs."""
    text = "Take nodes out of use, put them back, and let new ones in (administrators only)."
    parser = add_command(subparsers, "node", run, text)
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_enrol(verbs)
    for verb, text in _TEXTS.items():
        one = add_command(verbs, verb, run, text)
        one.add_argument("node", nargs="+", metavar="NODE", help="names of nodes: n1, or n[01-08],n11")
        one.add_argument("-r", "--reason", help="the reason, shown by `rankd nodes -R`")
        one.add_argument("--json", action="store_true", help="print the answer as JSON")
        add_place(one)
        add_asker(one)
        one.set_defaults(verb=f"node.{verb}")
    _add_device(verbs)
    _add_trust(verbs)


def _add_device(verbs: Subparsers) -> None:
    for verb, text in _DEVICE_TEXTS.items():
        one = add_command(verbs, f"device-{verb}", run_device, text)
        one.add_argument(
            "device",
            nargs="+",
            metavar="NODE/ID",
            help="a node, and the id or the index of one of its devices: gpu1/0, or gpu1 0; several: gpu1/0 gpu2/3, or"
            " gpu1/0-3,5; `rankd nodes --devices` shows the index, with --json also the id",
        )
        if verb != "resume":
            one.add_argument("-r", "--reason", help="the reason, shown by `rankd nodes --devices`")
        one.add_argument("--json", action="store_true", help="print the answer as JSON")
        add_place(one)
        add_asker(one)
        one.set_defaults(verb=f"node.device_{verb}", reason=None)


def _add_trust(verbs: Subparsers) -> None:
    for name, is_trusted, text in (
        ("trust", True, "Let the agents of these nodes vouch for the users of their machines, on their login sockets."),
        ("untrust", False, "Let them vouch for nobody any more. Holds at once."),
    ):
        one = add_command(verbs, name, run_trust, f"{text} Needs the site's secret.")
        one.add_argument("node", nargs="+", metavar="NODE", help="names of nodes: n1, or n[01-08],n11")
        add_place(one)
        one.set_defaults(is_trusted=is_trusted)


def _add_enrol(verbs: Subparsers) -> None:
    enrol = add_command(
        verbs,
        ENROL,
        auth_invite.run_enrol,
        "Print a token for one use. The agent of the node exchanges it for credentials at its first start (rankd agent"
        " --token-file FILE). Anyone who has the token first can act as that node: pass it on in private.",
    )
    enrol.add_argument("node", metavar="NODE", help="the node's name")
    auth_invite.add_options(enrol)


def run(arguments: argparse.Namespace) -> int:
    """Send the request, and print the nodes that could not be changed."""
    from rankd.cli.common.channel import ask
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


def run_device(arguments: argparse.Namespace) -> int:
    """Send a request for each device. One that is refused does not keep the others from being changed."""
    from rankd.cli.common.channel import ask
    from rankd.wire.device import DeviceSelection
    from rankd.wire.message import NodeFailed, NodeReply

    named = nodes_and_devices(arguments.device)
    reply, done = NodeReply(done=[], failed=[]), list[str]()
    for node, device in named:
        selection = DeviceSelection(node=node, device=device, reason=arguments.reason or "")
        try:
            reply.done.extend(ask(arguments, arguments.verb, selection, NodeReply).done)
            done.append(f"{node}/{device}")
        except Refused as error:
            if len(named) == 1:
                raise
            reply.failed.append(NodeFailed(node=node, code=error.code, message=error.message))
        except RankdError:
            _tell_changed(done, len(named))
            raise
    if arguments.json:
        from rankd.cli.common.table import print_json

        print_json(reply)
    for failed in reply.failed:
        print_line(f"rankd: {failed.message}", error=True)
    if reply.failed:
        _tell_changed(done, len(named))
    return 1 if reply.failed else 0


def _tell_changed(done: list[str], number: int) -> None:
    """Which of several devices were changed before, or beside, those that could not be."""
    if number > 1:
        print_line(f"rankd: {len(done)} of {number} devices were changed: {', '.join(done) or 'none'}", error=True)


def nodes_and_devices(words: list[str]) -> list[tuple[str, str]]:
    """Each node with a device: of ``gpu1/0``, of ``gpu1/0-1``, or of two words.

    Raises:
        Refused: ``usage``: a word is something else.

    >>> nodes_and_devices(["gpu1/0", "gpu2/1-2,5"])
    [('gpu1', '0'), ('gpu2', '1'), ('gpu2', '2'), ('gpu2', '5')]
    >>> nodes_and_devices(["gpu1", "GPU-5d0c"])
    [('gpu1', 'GPU-5d0c')]
    """
    if len(words) == 2 and "/" not in words[0]:
        words = ["/".join(words)]
    found: list[tuple[str, str]] = []
    for word in words:
        node, _, device = word.partition("/")
        if not node or not device:
            raise Refused("usage", f"'{word}' names no device; write NODE/ID, such as gpu1/0", "device")
        found += [(node, one) for one in _devices(device)]
    if len(found) > MOST_DEVICES:
        raise Refused("usage", f"{len(found)} devices are named, {MOST_DEVICES} are allowed at once", "device")
    return list(dict.fromkeys(found))


def _devices(text: str) -> list[str]:
    """An id, or the indices of a list such as ``0-3,5``."""
    if not _INDICES.fullmatch(text):
        return [text]
    from rankd.core.model.index_set import each, parse

    try:
        return [str(index) for index in each(parse(text, MOST_DEVICES))]
    except Refused:
        message = f"'{text}' is not a list of indices; write 0-3,5, with at most {MOST_DEVICES} in all"
        raise Refused("usage", message, "device") from None


def run_trust(arguments: argparse.Namespace) -> int:
    """Record it, then update the broker. A broker that can't be reached learns it at its next start."""
    from rankd.cli.administer.site_access import make_known, open_site_in, site_directory
    from rankd.cli.common.place import find
    from rankd.identity.site import Role
    from rankd.identity.trusted_node import set_trusted

    nodes = _names(arguments.node)
    for node in nodes:
        _check_may_vouch(node)
    place = find(arguments)
    directory = site_directory(place)
    open_site_in(directory)
    for node in nodes:
        set_trusted(directory, node, is_trusted=arguments.is_trusted)
    site = open_site_in(directory)
    for node in nodes:
        make_known(place, site, Role.NODE, node)
        may = "may" if arguments.is_trusted else "may not"
        print_line(f"node '{node}' {may} vouch for the users of its machine")
    return 0


def _check_may_vouch(node: str) -> None:
    """Check that it can be the name of a node whose agent vouches.

    Raises:
        Refused: ``bad_name``, ``usage``: it can't.
    """
    from rankd.core.admission.node_check import check_node_name
    from rankd.wire.subject import HEAD, WEB

    check_node_name(node)
    if node in (HEAD, WEB):
        raise Refused("usage", f"'{node}' is the name of rankd's own gateway; give the node another name", "node")


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
