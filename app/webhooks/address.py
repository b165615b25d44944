"""Where a webhook may go: http or https, to an address of the public internet, unless a deployment allows others.

A name says nothing about where it leads, and may lead elsewhere at the next look. So a name is resolved once for each
attempt, every address that it has is judged, and the connection is made to a judged address, not to the name.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import httpx

DEFAULT_PORTS = {"http": 80, "https": 443}
LOCAL_NAMES = ("localhost", "local", "internal", "home.arpa")

# Not known to every version of `ipaddress`, or public by their number and still no place to send something to.
REFUSED_NETWORKS = [
    ip_network(text)
    for text in (
        "168.63.129.16/32",  # a cloud's host agent
        "192.0.0.0/24",  # for protocols, and a cloud's metadata
        "192.88.99.0/24",  # 6to4 relays
        "64:ff9b::/96",  # IPv6 names of IPv4 addresses, whichever they are
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
        "3fff::/20",  # for documents
        "5f00::/16",  # for routers
    )
]

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


class RefusedAddress(Exception):
    """A webhook must not be sent there; the text says why, for its owner."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the system knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def check_url(text: str, allow_private: bool) -> httpx.URL:
    """Refuse what can be seen to be wrong without asking anybody."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        raise RefusedAddress("is not a URL") from None
    if url.scheme not in DEFAULT_PORTS:
        raise RefusedAddress("must begin with https:// or http://")
    if url.userinfo or url.fragment:
        raise RefusedAddress("must have neither a user nor a fragment")
    host = url.raw_host.decode("ascii")
    if not host or "%" in host or len(host) > 253 or not 0 < port_of(url) < 65536:
        raise RefusedAddress("does not name a host")
    if not allow_private:
        name = host.rstrip(".").lower()
        if name in LOCAL_NAMES or name.endswith(tuple(f".{local}" for local in LOCAL_NAMES)):
            raise RefusedAddress("names a host of this machine or network")
        if (literal := _literal(name)) is not None and not is_public(literal):
            raise RefusedAddress("is not an address of the public internet")
    return url


def port_of(url: httpx.URL) -> int:
    return DEFAULT_PORTS[url.scheme] if url.port is None else url.port


def is_public(address: str) -> bool:
    """Whether an address, as text, is that of one machine on the public internet."""
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
    """The address that a host is, in any spelling that the system's resolver would take for one."""
    try:
        return str(ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None
