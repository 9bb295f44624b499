"""How often a password may be tried: per name and per address, in a window of time. Pure.

An attempt counts from its begin, so that many at the same time count too. One that signs in is forgotten. Names that do
not exist count as all others, so that the limit says nothing about them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from ipaddress import IPv6Address, ip_address

WINDOW_S = 600.0
MOST_PER_NAME = 10
MOST_PER_ADDRESS = 40
MOST_KEYS = 20_000
"""Names and addresses that are remembered; the one that was tried longest ago is forgotten first."""


class Attempts:
    """Times (seconds of any clock that does not go back) of the last attempts."""

    def __init__(self) -> None:
        self._times: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def begin(self, name: str, address: str, now: float) -> float:
        """Count an attempt; returns 0 if it may be made, else the seconds until another one may be."""
        limits = ((_name(name), MOST_PER_NAME), (_address(address), MOST_PER_ADDRESS))
        waits = [self._wait(key, most, now) for key, most in limits]
        if longest := max(waits):
            return longest
        for key, _ in limits:
            self._times.setdefault(key, deque()).append(now)
            self._times.move_to_end(key)
        while len(self._times) > MOST_KEYS:
            self._times.popitem(last=False)
        return 0.0

    def forget(self, name: str, address: str) -> None:
        """The last attempt signed in: the name begins again, and the address has one attempt less."""
        self._times.pop(_name(name), None)
        times = self._times.get(_address(address))
        if times:
            times.pop()

    def _wait(self, key: tuple[str, str], most: int, now: float) -> float:
        times = self._times.get(key)
        if times is None:
            return 0.0
        while times and times[0] <= now - WINDOW_S:
            times.popleft()
        return times[0] + WINDOW_S - now if len(times) >= most else 0.0


def _name(name: str) -> tuple[str, str]:
    return ("name", name.casefold())


def _address(address: str) -> tuple[str, str]:
    """A network of IPv6 has as many addresses as an attacker likes, so all of it counts as one."""
    try:
        found = ip_address(address)
    except ValueError:
        return ("address", "")
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return ("address", str(int(found) >> 64))
    return ("address", str(getattr(found, "ipv4_mapped", None) or found))
