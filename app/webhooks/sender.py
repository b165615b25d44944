"""Makes one attempt to deliver a webhook: resolves the host, checks the address, connects, sends, and reads only the
status."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from app.webhooks.address import RefusedAddress, Resolver, check_url, is_public, port_of, resolve

CONNECTED = "connection.connect_tcp.complete"


@dataclass(frozen=True)
class Outcome:
    """The outcome of an attempt. `unreachable` means that the receiver does not respond, so its other deliveries are
    delayed, too."""

    kind: Literal["delivered", "failed", "unreachable", "gone"]
    error: str | None = None


class Sender:
    """Sends to untrusted receivers: no redirects, no proxies, no reused connections."""

    def __init__(
        self,
        timeout_seconds: float,
        allow_private: bool,
        resolver: Resolver = resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._allow_private = allow_private
        self._resolve = resolver
        self._tls = tls or True  # True means the certificate authorities of the system
        self._http: httpx.AsyncClient | None = None

    async def send(self, address: str, headers: dict[str, str], body: bytes) -> Outcome:
        """Send a message. Errors that a receiver can cause are returned as outcomes and not raised."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                status = await self._post(address, headers, body)
        except TimeoutError:
            return Outcome(
                "unreachable", f"no response within {self._timeout_seconds:g} s (HYPERPLANE_WEBHOOK_TIMEOUT_SECONDS)"
            )
        except RefusedAddress as error:
            return Outcome("unreachable", f"the address {error}")
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError, UnicodeError) as error:
            return Outcome("unreachable", f"cannot be reached: {type(error).__name__}")
        if 200 <= status < 300:
            return Outcome("delivered")
        return Outcome("gone" if status == 410 else "failed", f"answered with status {status}")

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def _post(self, address: str, headers: dict[str, str], body: bytes) -> int:
        url = check_url(address, self._allow_private)
        host = url.raw_host.decode("ascii")
        try:
            found = await self._resolve(host.strip("[]"), port_of(url))
        except socket.gaierror:
            raise RefusedAddress("cannot be resolved") from None
        if not found:
            raise RefusedAddress("cannot be resolved")
        if not self._allow_private and not all(map(is_public, found)):
            raise RefusedAddress("does not resolve to a public address (see HYPERPLANE_WEBHOOK_ALLOW_PRIVATE)")
        # Connect to the checked address, because the name can resolve to another address by now. TLS still checks the
        # name.
        extensions: dict[str, Any] = {"trace": self._check_peer}
        if found[0] != host.strip("[]"):
            extensions["sni_hostname"] = host
        request = self._client().build_request(
            "POST",
            url.copy_with(host=found[0]),
            headers={**headers, "Host": url.netloc.decode("ascii")},
            content=body,
            extensions=extensions,
        )
        response = await self._client().send(request, stream=True)
        await response.aclose()  # the response body is not needed
        return response.status_code

    async def _check_peer(self, event: str, info: dict[str, Any]) -> None:
        """Raise RefusedAddress if the connected peer is not allowed. Called after connecting and before sending."""
        if event == CONNECTED and not self._allow_private:
            peer = info["return_value"].get_extra_info("server_addr")
            if not is_public(str(peer[0])):
                raise RefusedAddress("does not resolve to a public address (see HYPERPLANE_WEBHOOK_ALLOW_PRIVATE)")

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            # do not reuse connections, because one address can serve several host names
            limits = httpx.Limits(max_keepalive_connections=0)
            self._http = httpx.AsyncClient(
                verify=self._tls,
                trust_env=False,
                follow_redirects=False,
                timeout=self._timeout_seconds,
                limits=limits,
            )
        return self._http
