"""The process that sends one notification by the library apprise: reads the order from standard input, and ends.

A hook of the interpreter refuses what a plugin might do and should not: connect to addresses of this machine or of
private networks, or start programs. Redirects are not followed.
"""

from __future__ import annotations

import sys
from ipaddress import ip_address
from typing import Any

import msgspec

from rankd.core.notification.address import is_public
from rankd.services.notifier.apprise_process import Order

MOST_BYTES = 256 * 2**10
FORBIDDEN = frozenset(
    {"subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "os.forkpty", "pty.spawn"}
)
SENDING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})


class Guard:
    """The hook. ``private_hosts``: hosts whose addresses may be private."""

    def __init__(self, private_hosts: list[str]) -> None:
        self._allowed = set[str]()
        self._private_hosts = {host.strip("[]") for host in private_hosts}

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """See ``sys.addaudithook``."""
        if event in FORBIDDEN:
            raise PermissionError(f"a plugin of apprise may not do this: {event}")
        if event in SENDING and arguments[1] is not None:  # without an address, the socket is connected already
            self._check(arguments[1])

    def _check(self, address: object) -> None:
        host = address[0] if isinstance(address, tuple) and address else address
        if not isinstance(host, str) or not (is_public(host) or host in self._allowed):
            raise PermissionError("this address is of this machine or of a private network")

    def allow_named(self) -> None:
        """Look the private hosts up once, and allow the addresses that they have now."""
        import socket  # noqa: PLC0415 - before the hook is set

        for host in self._private_hosts:
            try:
                ip_address(host)
                self._allowed.add(host)
            except ValueError:
                self._allowed |= {str(one[4][0]) for one in socket.getaddrinfo(host, None)}


def main() -> int:
    """Send; the exit status is 0 if a service has taken it. Otherwise standard output says why."""
    order = msgspec.json.decode(sys.stdin.buffer.read(MOST_BYTES), type=Order)
    import apprise  # noqa: PLC0415 - the extra
    import requests.sessions  # noqa: PLC0415 - comes with it

    vars(requests.sessions)["DEFAULT_REDIRECT_LIMIT"] = 0
    guard = Guard(order.private_hosts)
    guard.allow_named()
    services = apprise.Apprise()
    if not services.add(order.target):
        sys.stdout.write("apprise does not know such a target; see its list of services\n")
        return 1
    sys.addaudithook(guard)
    if services.notify(title=order.title, body=order.text, body_format=apprise.NotifyFormat.TEXT):
        return 0
    sys.stdout.write("apprise could not send to the service; the target may be wrong, or the service does not answer\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
