"""Which addresses a webhook may connect to: decided by the IP address, never by the name.

    URL ── parse_target ──▶ Target ── resolve, once ──▶ addresses ── all allowed? ──▶ [Address]

A name may resolve to something else a moment later, so the address that was judged is the one that
is used. All addresses of a name have to be allowed: one that also leads inside is a trap. What is
not public is refused: this host, private networks, link-local ones with the metadata services of
clouds, and IPv6 addresses that carry an IPv4 one.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final
from urllib.parse import urlsplit

from mqservice.alerts.limits import ADDRESSES_MAX, URL_CHARS_MAX

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, int], Sequence[str]]

_PORTS: Final = {"http": 80, "https": 443}
# Not public, whatever the registries say: services of clouds under public addresses, and ways for
# an IPv4 address to hide in an IPv6 one (6to4, Teredo). Outside the first eighth of IPv6 there is
# nothing public at all.
_PUBLIC_V6: Final = ip_network("2000::/3")
_REFUSED: Final = tuple(
    ip_network(text)
    for text in (
        "168.63.129.16/32", "192.0.0.0/24", "192.88.99.0/24", "2002::/16", "2001::/32",
    )
)  # fmt: skip


class TargetRejected(Exception):
    """A URL or an address that no webhook may have; says why, in words for the tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """``path`` has the query behind it; ``authority`` is what the Host header says."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_target(url: str) -> Target:
    """The parts of a URL. Raises ``TargetRejected``."""
    if len(url) > URL_CHARS_MAX:
        raise TargetRejected(f"must have at most {URL_CHARS_MAX} characters, found {len(url)}")
    if not url.isascii() or any(char <= " " or char == "\x7f" or char == "\\" for char in url):
        raise TargetRejected("must be ASCII without spaces and backslashes")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetRejected("is not a URL") from None
    if parts.scheme not in _PORTS:
        raise TargetRejected("must start with https://")
    if "@" in parts.netloc:
        raise TargetRejected("must not contain a user name or password")
    if not parts.hostname:
        raise TargetRejected("has no host")
    if port == 0:
        raise TargetRejected("must not use port 0")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(
        scheme=parts.scheme, host=parts.hostname, port=port or _PORTS[parts.scheme], path=path
    )


def reject_private_literal(target: Target, allowed: Sequence[Network]) -> None:
    """Refuse an address that stands in the URL itself. Looks no name up.

    Raises ``TargetRejected``.
    """
    try:
        address = ip_address(target.host)
    except ValueError:
        return
    check_address(address, target, allowed)


def find_address(target: Target, allowed: Sequence[Network], resolve: Resolve) -> Address:
    """The one address to connect to. One look-up.

    Raises ``TargetRejected``, or ``OSError`` when the name cannot be resolved now.
    """
    found = resolve(target.host, target.port)[:ADDRESSES_MAX]
    if not found:
        raise OSError("the host has no address")
    addresses = [ip_address(text.partition("%")[0]) for text in found]
    for address in addresses:
        check_address(address, target, allowed)
    return addresses[0]


def check_address(address: Address, target: Target, allowed: Sequence[Network]) -> None:
    """Raises ``TargetRejected`` unless the address is public, or allowed by configuration."""
    real = address
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        real = address.ipv4_mapped
    if any(_contains(network, real) for network in allowed):
        return
    if not is_public(real):
        raise TargetRejected("must not lead to an address that is not public")
    if target.scheme != "https":
        raise TargetRejected("must start with https://")


def is_public(address: Address) -> bool:
    """Whether the address is one of the public Internet."""
    if address.version == 6 and not _contains(_PUBLIC_V6, address):
        return False
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not address.is_unspecified
        and not any(_contains(network, address) for network in _REFUSED)
    )


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the system finds them. May block for as long as it likes."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [str(each[4][0]) for each in found]


def _contains(network: Network, address: Address) -> bool:
    return network.version == address.version and address in network
