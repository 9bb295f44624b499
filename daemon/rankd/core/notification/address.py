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
    if stood_for := _stood_for(address):
        return all(map(_is_global, stood_for))
    return _is_global(address) and all(map(_is_global, _carried(address)))


def _is_global(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _stood_for(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """The IPv4 address that an IPv6 address only stands for: it is of a special range itself."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return [address.ipv4_mapped]
        if address in _NAT64:
            return [IPv4Address(int(address) & 0xFFFFFFFF)]
    return []


def _carried(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses to which packets for an IPv6 address travel, with 6to4 and Teredo."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.sixtofour, *(address.teredo or ())]
    return [one for one in found if one is not None]
