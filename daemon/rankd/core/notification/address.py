"""Which IP addresses notifications are sent to: public ones only, unless the administrator names the host."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(text: str) -> bool:
    """Whether an address belongs to the internet: not to this machine, a private network, or a special range.

    IPv6 addresses that stand for an IPv4 address are judged by that one, too.

    >>> [is_public(text) for text in ("198.51.100.1", "8.8.8.8", "127.0.0.1", "10.1.2.3", "169.254.169.254")]
    [False, True, False, False, False]
    >>> [is_public(text) for text in ("2606:4700::1", "::1", "fe80::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1")]
    [True, False, False, False, False]
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return all(_is_global(one) for one in (address, *_embedded(address)))


def _is_global(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _embedded(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]
