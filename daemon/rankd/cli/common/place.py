"""The rankd that a command uses, from its options. :mod:`rankd.client.place` has the rule."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rankd.cli.common.option import refuse_empty, tls_files
from rankd.client.place import Given, locate
from rankd.client.place_rule import Named

if TYPE_CHECKING:
    import argparse

    from rankd.client.place import Place


def find(arguments: argparse.Namespace) -> Place:
    """The rankd that the command uses. ``-v`` prints the choice once.

    Raises:
        Refused: ``usage``, ``bad_request``: the named broker, directory or database can't be used.
    """
    refuse_empty(arguments, *Named._fields, "creds")
    named = Named(*(getattr(arguments, name, None) or None for name in Named._fields))
    creds, user = getattr(arguments, "creds", None), getattr(arguments, "asker", None)
    place = locate(Given(named, creds, user, tls_files(arguments, {})))
    if not getattr(arguments, "has_told", False):
        arguments.has_told = True
        _tell(place, arguments)
    return place


def _tell(place: Place, arguments: argparse.Namespace) -> None:
    """Print the choice, with ``-v``. A directory of the user's own that does not count is always printed."""
    is_verbose = getattr(arguments, "verbose", False)
    if is_verbose:
        print(f"rankd: {_explained(place, arguments)}", file=sys.stderr)
    for one in place.passed_over:
        if is_verbose or (one.is_own and (place.nats or place.database)):
            print(f"rankd: passed over {one.text}", file=sys.stderr)


def _explained(place: Place, arguments: argparse.Namespace) -> str:
    """What the command uses: as :func:`rankd.cli.common.channel.opened` and the sources of looking commands choose."""
    from rankd.client.channel import own_channel

    acts = not getattr(arguments, "looks", False)
    needs_broker = getattr(arguments, "needs_broker", False) or getattr(arguments, "enqueue", False)
    is_own = not needs_broker and not getattr(arguments, "admin", False)
    channel = own_channel(place) if is_own and (acts or place.uses_bus) else None
    return place.explained(acts=acts) if channel is None else f"asks the login socket {channel.path}: {place.reason}"
