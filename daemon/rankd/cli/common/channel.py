"""A command's one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rankd.cli.common.place import find
from rankd.cli.common.session import asker
from rankd.client.channel import open_channel

if TYPE_CHECKING:
    import argparse

    import msgspec

T = TypeVar("T")


def ask(arguments: argparse.Namespace, verb: str, message: msgspec.Struct, kind: type[T]) -> T:
    """Send one request, and return its answer."""
    from rankd.wire.codec import encode

    with open_channel(find(arguments), asker(arguments)) as channel:
        return channel.request(verb, encode(message), kind)
