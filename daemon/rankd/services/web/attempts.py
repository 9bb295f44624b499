"""How often a password may be tried: per name and per network, in a window of time. Pure.

An attempt counts from its begin, so that many at the same time count too. One that signs in is forgotten. Names that do
not exist count as all others, so that the limit says nothing about them. Addresses of this machine are not counted: all
its users and tunnels share them, and each can have millions of them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from contextlib import suppress
from ipaddress import IPv6Address, ip_address

from rankd.core.errors import Unavailable

WINDOW_S = 600.0
MOST_PER_NAME = 10
MOST_PER_ADDRESS = 40
MOST_PER_SITE = 160
"""From a /48 of IPv6, which a provider gives to one customer."""
MOST_NAMES = MOST_NETWORKS = 20_000


class _Table:
    """Times of the last attempts by key, apart those with one attempt; the one that was tried longest ago is first."""

    def __init__(self) -> None:
        self.once: OrderedDict[str, deque[float]] = OrderedDict()
        self.more: OrderedDict[str, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self.once) + len(self.more)

    def __contains__(self, key: str) -> bool:
        return key in self.once or key in self.more

    def wait(self, key: str, most: int, now: float) -> float:
        times = [one for one in self.once.get(key) or self.more.get(key) or () if one > now - WINDOW_S]
        return times[0] + WINDOW_S - now if len(times) >= most else 0.0

    def add(self, key: str, now: float) -> None:
        times = self.drop(key)
        while times and times[0] <= now - WINDOW_S:
            times.popleft()
        times.append(now)
        self._place(key, times)

    def take_back(self, key: str, begun: float | None = None) -> None:
        """Without the attempt that began then, if it is remembered; without the last one, if none is named."""
        if times := self.drop(key):
            with suppress(ValueError):
                times.remove(times[-1] if begun is None else begun)
            self._place(key, times)

    def drop(self, key: str) -> deque[float]:
        return self.once.pop(key, None) or self.more.pop(key, None) or deque()

    def make_room(self, most: int, now: float) -> bool:
        """Forget what is out of its window, then a key with one attempt; false if there is no room without others."""
        for part in (self.once, self.more):
            while part and next(iter(part.values()))[-1] <= now - WINDOW_S:
                part.popitem(last=False)
        if len(self) >= most and self.once:
            self.once.popitem(last=False)
        return len(self) < most

    def _place(self, key: str, times: deque[float]) -> None:
        if times:
            (self.once if len(times) == 1 else self.more)[key] = times


class Attempts:
    """Times (seconds of any clock that does not go back) of the last attempts."""

    def __init__(self) -> None:
        self.names, self.networks = _Table(), _Table()

    def begin(self, name: str, address: str, now: float) -> float:
        """Count an attempt; returns 0 if it may be made, else the seconds until another one may be.

        Raises:
            Unavailable: ``busy``: the name would be remembered at the cost of one that was tried several times.
        """
        name, networks = name.casefold(), _networks(address)
        waits = [self.networks.wait(network, most, now) for network, most in networks.items()]
        if longest := max(self.names.wait(name, MOST_PER_NAME, now), *waits, 0.0):
            return longest
        if name not in self.names and not self.names.make_room(MOST_NAMES, now):
            raise Unavailable("busy", "too many names sign in at this moment; try again in some minutes")
        self.names.add(name, now)
        for network in networks:
            if network not in self.networks and not self.networks.make_room(MOST_NETWORKS, now):
                self.networks.more.popitem(last=False)  # this limit can't stop an attacker with this many networks
            self.networks.add(network, now)
        return 0.0

    def forget(self, name: str, address: str) -> None:
        """The last attempt signed in: the name begins again, and the address has one attempt less."""
        self.names.drop(name.casefold())
        for network in _networks(address):
            self.networks.take_back(network)

    def take_back(self, name: str, address: str, begun: float) -> None:
        """Nothing was checked in the attempt that began then."""
        self.names.take_back(name.casefold(), begun)
        for network in _networks(address):
            self.networks.take_back(network, begun)


def _networks(address: str) -> dict[str, int]:
    """What the address counts for, with the limit of each. A user of IPv6 has as many addresses as wanted."""
    try:
        found = ip_address(address)
    except ValueError:
        return {"": MOST_PER_ADDRESS}
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_loopback:
        return {}
    if isinstance(found, IPv6Address):
        return {f"{int(found) >> 64:x}/64": MOST_PER_ADDRESS, f"{int(found) >> 80:x}/48": MOST_PER_SITE}
    return {str(found): MOST_PER_ADDRESS}
