"""Checks webhook addresses: http or https, and on the public internet, unless the settings allow private addresses.

A host name can resolve to another address at any time (DNS rebinding). The name is therefore resolved once per attempt,
every resolved address is checked, and the connection is made to a checked address and not to the name.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

DEFAULT_PORTS = {"http": 80, "https": 443}
LOCAL_NAMES = ("localhost", "local", "internal", "home.arpa")

# Networks that some versions of `ipaddress` consider public, but that must not receive webhooks.
REFUSED_NETWORKS = [
    ip_network(text)
    for text in (
        "168.63.129.16/32",  # host agent of a cloud provider
        "192.0.0.0/24",  # IETF protocol assignments, and metadata of a cloud provider
        "192.88.99.0/24",  # 6to4 relays
        "64:ff9b::/96",  # IPv4 addresses embedded in IPv6
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
    )
]

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


class RefusedAddress(Exception):
    """Raised for an address to which webhooks must not be sent. The message is for the owner of the webhook."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Resolve a host name with the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def check_url(text: str, allow_private: bool) -> httpx.URL:
    """Raise RefusedAddress for a URL that is not allowed. Does not resolve its host name."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        raise RefusedAddress("is not a valid URL; use one such as https://example.org/hook") from None
    if url.scheme not in DEFAULT_PORTS:
        raise RefusedAddress("must begin with https:// or http://")
    if url.userinfo or url.fragment:
        raise RefusedAddress("must not contain a user name, password or fragment")
    host = url.raw_host.decode("ascii")
    if not host or "%" in host or len(host) > 253 or not 0 < port_of(url) < 65536:
        raise RefusedAddress("has no valid host name or IP address")
    if not allow_private:
        name = host.rstrip(".").lower()
        if name in LOCAL_NAMES or name.endswith(tuple(f".{local}" for local in LOCAL_NAMES)):
            raise RefusedAddress(
                "is a host of this machine or network; use a public host, or set HYPERPLANE_WEBHOOK_ALLOW_PRIVATE=true"
            )
        if (literal := _literal(name)) is not None and not is_public(literal):
            raise RefusedAddress(
                "is not on the public internet; use a public address, or set HYPERPLANE_WEBHOOK_ALLOW_PRIVATE=true"
            )
    return url


def port_of(url: httpx.URL) -> int:
    return DEFAULT_PORTS[url.scheme] if url.port is None else url.port


def is_public(address: str) -> bool:
    """Return whether an address is a unicast address of the public internet."""
    try:
        parsed: IPv4Address | IPv6Address = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        if parsed.scope_id is not None or parsed.is_site_local:
            return False
        parsed = parsed.ipv4_mapped or parsed
    return (
        parsed.is_global
        and not parsed.is_multicast
        and not parsed.is_reserved
        and not parsed.is_unspecified
        and not any(parsed in network for network in REFUSED_NETWORKS)
    )


def _literal(host: str) -> str | None:
    """Return the IP address that a host consists of, in any notation that the system's resolver accepts, or None if it
    is a name."""
    try:
        return str(ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None
