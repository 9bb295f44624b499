"""A command's requests, and its one request."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from rankd.cli.common.place import find
from rankd.client.asker import refuse_empty_name
from rankd.client.channel import open_channel, own_channel
from rankd.client.session import CONNECT_TIMEOUT_S, RETRY_PAUSE_S
from rankd.core.errors import Unavailable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import msgspec

    from rankd.client.channel import Channel

T = TypeVar("T")


@contextmanager
def opened(arguments: argparse.Namespace, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> Iterator[Channel]:
    """The way on which a command's requests go.

    At the login socket, the kernel says who asks. Then no credentials are read, whose import takes long.

    Raises:
        Refused: ``usage``: the name of the user who asks is empty. Also as :func:`rankd.client.channel.open_channel`.
        Unavailable: as there.
    """
    place = find(arguments)
    refuse_empty_name(getattr(arguments, "asker", None))
    if not getattr(arguments, "admin", False) and (own := own_channel(place)) is not None:
        yield own
        return
    from rankd.cli.common.session import asker

    with open_channel(place, asker(arguments), connect_timeout_s=connect_timeout_s) as channel:
        yield channel


@contextmanager
def opened_until(arguments: argparse.Namespace, until: float) -> Iterator[Channel]:
    """As :func:`opened`. If no rankd runs and ``--retry-for`` was given, it is looked for again.

    ``until``: the reading of ``time.monotonic()`` up to which. A command without the option does not wait for a rankd
    that was perhaps never started.

    Raises:
        Refused, Unavailable: as :func:`opened`.
    """
    has_said = False
    with ExitStack() as stack:
        while True:
            left_s = until - time.monotonic()
            try:
                channel = stack.enter_context(opened(arguments, connect_timeout_s=max(left_s, 0.0)))
                break
            except Unavailable as error:
                if error.code != "not_running" or not arguments.is_patient or left_s <= 0:
                    raise
            if not has_said:
                print(f"rankd: no rankd runs; waiting for one for up to {left_s:.0f} s", file=sys.stderr, flush=True)
                has_said = True
            time.sleep(min(RETRY_PAUSE_S, left_s))
        yield channel


def ask(arguments: argparse.Namespace, verb: str, message: msgspec.Struct, kind: type[T]) -> T:
    """Send one request, and return its answer."""
    from rankd.wire.encoding import encode

    with opened(arguments) as channel:
        return channel.request(verb, encode(message), kind)
