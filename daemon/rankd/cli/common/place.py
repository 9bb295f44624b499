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
        _tell(place, is_verbose=getattr(arguments, "verbose", False), acts=not getattr(arguments, "looks", False))
    return place


def _tell(place: Place, *, is_verbose: bool, acts: bool) -> None:
    """Print the choice, with ``-v``. A directory of the user's own that does not count is always printed."""
    if is_verbose:
        print(f"rankd: {place.explained(acts=acts)}", file=sys.stderr)
    for one in place.passed_over:
        if is_verbose or (one.is_own and (place.nats or place.database)):
            print(f"rankd: passed over {one.text}", file=sys.stderr)
