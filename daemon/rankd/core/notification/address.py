"""Which IP addresses notifications are sent to: public ones only, unless the administrator names the host."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_NAT64 = IPv6Network("64:ff9b::/96")
_UNICAST = IPv6Network("2000::/3")
"""The only part of IPv6 from which public addresses are given out. Old site-local ones (fec0::) are outside."""
_SPECIAL = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"), IPv6Network("3fff::/20"))
"""Ranges that the ipaddress module calls global: protocol assignments, relays of 6to4, documentation."""
_ISATAP = 0x5EFE


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


def is_known_private(host: str) -> bool:
    """Whether a host of a URL is certainly not public. No name is looked up, so most names are not known to be private.

    >>> [is_known_private(host) for host in ("localhost", "10.0.0.5", "[::1]", "8.8.8.8", "hooks.example.org")]
    [True, True, True, False, False]
    """
    is_number = host.startswith("[") or host.replace(".", "").isdecimal()
    return host.endswith(("localhost", ".localdomain")) or (is_number and not is_public(host.strip("[]")))


def _is_global(address: IPv4Address | IPv6Address) -> bool:
    if any(address in network for network in _SPECIAL) or (address.version == 6 and address not in _UNICAST):
        return False
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
    """The IPv4 addresses to which packets for an IPv6 address travel, with 6to4, Teredo and ISATAP."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.sixtofour, *(address.teredo or ()), _isatap(address)]
    return [one for one in found if one is not None]


def _isatap(address: IPv6Address) -> IPv4Address | None:
    """The address at the end of an interface identifier such as ``::0:5efe:10.0.0.1``, whatever its prefix is."""
    identifier = int(address) & 0xFFFFFFFFFFFFFFFF
    is_isatap = (identifier >> 32) & 0xFDFFFFFF == _ISATAP
    return IPv4Address(identifier & 0xFFFFFFFF) if is_isatap else None
