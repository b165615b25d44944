"""Where a webhook may go, and one attempt to send it, over real sockets."""

import asyncio
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from app.webhooks import sender as sender_module
from app.webhooks.address import RefusedAddress, Resolver, check_url, is_public, resolve
from app.webhooks.sender import Outcome, Sender
from app.webhooks.signing import new_secret, signed_request
from tests.support.receiver import Receiver, receiving

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8"]
PRIVATE = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "100.100.100.200", "224.0.0.1", "239.255.255.250", "240.0.0.1"),
    *("255.255.255.255", "192.0.0.192", "192.0.2.1", "198.18.0.1", "168.63.129.16", "192.88.99.1"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"),
    *("64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:53aa:64c:0:0:80ff:fffe", "", "localhost", "nothing"),
]


@pytest.fixture(scope="module")
def shared_receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def receiver(shared_receiver: Receiver) -> Receiver:
    shared_receiver.messages.clear()
    shared_receiver.answer_headers.clear()
    shared_receiver.answer = lambda _: 204
    return shared_receiver


def resolver(*answers: str | Sequence[str] | Exception) -> Resolver:
    """Gives these answers, one after the other."""
    coming = iter(answers)

    async def answer(_host: str, _port: int) -> Sequence[str]:
        found = next(coming)
        if isinstance(found, Exception):
            raise found
        return [found] if isinstance(found, str) else found

    return answer


def send(url: str, *, private: bool = True, by: Resolver = resolve, seconds: float = 20.0, times: int = 1) -> Outcome:
    async def run() -> Outcome:
        sender = Sender(seconds, private, by)
        headers, body = signed_request(new_secret(), "evt_1", 1, {"type": "x"})
        try:
            for _ in range(times - 1):
                await sender.send(url, headers, body)
            return await sender.send(url, headers, body)
        finally:
            await sender.close()

    return asyncio.run(run())


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.org/", "file:///etc/passwd", "gopher://example.org", "//example.org/", "example.org", ""),
        *(
            "http:///x",
            "http://",
            "http://[::1",
            "http://exa mple.org/",
            "http://example.org:0/",
            "http://example.org:99999",
        ),
        *("http://user@example.org/", "http://u:p@example.org/", "http://example.org/#x", f"http://{'a' * 300}/"),
    ],
)
@pytest.mark.parametrize("allow_private", [True, False])
def test_what_is_no_address_is_refused_always(url: str, allow_private: bool) -> None:
    with pytest.raises(RefusedAddress):
        check_url(url, allow_private)


@pytest.mark.parametrize(
    "host",
    [
        *(
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "017700000001",
            "0",
            "10.0.0.1",
            "169.254.169.254",
            "[::1]",
        ),
        *("[::ffff:127.0.0.1]", "[fd00::1]", "localhost", "LOCALHOST", "a.localhost", "localhost.", "printer.local"),
        *("metadata.google.internal", "router.home.arpa", "100.64.1.1", "0x7f.1", "169.254.169.254"),
    ],
)
def test_hosts_of_here_are_seen_without_asking(host: str) -> None:
    with pytest.raises(RefusedAddress):
        check_url(f"https://{host}:8443/hook", allow_private=False)
    check_url(f"https://{host}:8443/hook", allow_private=True)


@pytest.mark.parametrize("url", ["https://example.org/hook?x=1", "http://8.8.8.8:8080/", "https://exämple.org/"])
def test_public_urls_are_taken(url: str) -> None:
    check_url(url, allow_private=False)


def test_a_message_arrives_under_the_name_that_was_asked_for(receiver: Receiver) -> None:
    port = receiver.url.rpartition(":")[2]
    outcome = send(f"http://hooks.example.org:{port}/a?b=1", by=resolver("127.0.0.1"))
    assert outcome == Outcome("delivered")
    (message,) = receiver.messages
    assert (message.path, message.headers["host"]) == ("/a?b=1", f"hooks.example.org:{port}")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(200, "delivered"), (299, "delivered"), (301, "failed"), (400, "failed"), (404, "failed"), (500, "failed")],
)
def test_only_2xx_is_delivered(receiver: Receiver, status: int, kind: str) -> None:
    receiver.answer = lambda _: status
    assert send(receiver.url + "/x").kind == kind


def test_410_means_that_the_receiver_is_gone(receiver: Receiver) -> None:
    receiver.answer = lambda _: 410
    assert send(receiver.url + "/x") == Outcome("gone", "answered with status 410")


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.answer = lambda _: 307
    receiver.answer_headers["Location"] = receiver.url + "/elsewhere"
    assert send(receiver.url + "/x").kind == "failed"
    assert [message.path for message in receiver.messages] == ["/x"]


def test_a_proxy_of_the_environment_is_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert send(receiver.url + "/x").kind == "delivered"


@pytest.mark.parametrize("found", ["127.0.0.1", ["93.184.216.34", "10.0.0.1"], "::ffff:127.0.0.1", "169.254.169.254"])
def test_a_name_that_leads_here_is_refused(receiver: Receiver, found: str | list[str]) -> None:
    port = receiver.url.rpartition(":")[2]
    outcome = send(f"http://evil.example.org:{port}/x", private=False, by=resolver(found))
    assert outcome == Outcome(
        "unreachable", "the address does not resolve to a public address (see HYPERPLANE_WEBHOOK_ALLOW_PRIVATE)"
    )
    assert receiver.messages == []


def test_a_name_that_leads_elsewhere_the_next_time_is_judged_each_time(receiver: Receiver) -> None:
    """DNS rebinding: a public address at first (without a response), a local one afterwards."""
    port = receiver.url.rpartition(":")[2]
    url = f"http://rebinding.example.org:{port}/x"
    outcome = send(url, private=False, by=resolver(OSError("as if there were no response"), "127.0.0.1"), times=2)
    assert outcome.error == "the address does not resolve to a public address (see HYPERPLANE_WEBHOOK_ALLOW_PRIVATE)"
    assert receiver.messages == []


def test_the_peer_itself_is_judged_before_anything_is_sent(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the address had been public and the connection still ended up here."""
    judged: list[str] = []

    def first_only(address: str) -> bool:
        judged.append(address)
        return len(judged) == 1

    monkeypatch.setattr(sender_module, "is_public", first_only)
    port = receiver.url.rpartition(":")[2]
    outcome = send(f"http://hooks.example.org:{port}/x", private=False, by=resolver("127.0.0.1"))
    assert outcome.error == "the address does not resolve to a public address (see HYPERPLANE_WEBHOOK_ALLOW_PRIVATE)"
    assert (judged, receiver.messages) == (["127.0.0.1", "127.0.0.1"], [])


def unanswered(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join(20)


def test_a_receiver_that_trickles_is_not_waited_for() -> None:
    """Each byte comes in time, the answer as a whole does not."""
    ended = threading.Event()

    def trickle(connection: socket.socket) -> None:
        while not ended.wait(0.05):
            try:
                connection.sendall(b"H")
            except OSError:
                return

    for url in unanswered(trickle):
        assert send(url, seconds=0.5) == Outcome(
            "unreachable", "no response within 0.5 s (HYPERPLANE_WEBHOOK_TIMEOUT_SECONDS)"
        )
        ended.set()


def test_an_endless_body_is_not_read() -> None:
    def pour(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        except OSError:
            return

    for url in unanswered(pour):
        assert send(url) == Outcome("delivered")


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/9.9 what\r\n\r\n", b"\x00" * 100, b"HTTP/1.1 200 OK\r\n" + b"x" * 200_000]
)
def test_an_answer_that_is_none_does_no_harm(answer: bytes) -> None:
    def say(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    for url in unanswered(say):
        assert send(url).kind == "unreachable"


def test_nobody_there_and_no_such_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert send(f"http://127.0.0.1:{port}/").kind == "unreachable"
    missing = resolver(socket.gaierror(-2, "unknown"))
    assert send("http://nothing.example.org/", by=missing).error == "the address cannot be resolved"
    assert send("http://nothing.example.org/", by=resolver([])).error == "the address cannot be resolved"


def test_a_certificate_is_for_the_name_and_not_for_the_address(
    tmp_path: Path, require_command: Callable[[str], str]
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    name = "hooks.example.org"
    made = [require_command("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    made += ["-keyout", str(key), "-out", str(certificate), "-subj", f"/CN={name}"]
    subprocess.run([*made, "-addext", f"subjectAltName=DNS:{name}"], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    trusted = ssl.create_default_context(cafile=str(certificate))

    async def attempt(host: str, port: str, tls: ssl.SSLContext | None) -> Outcome:
        sender = Sender(20.0, True, resolver("127.0.0.1"), tls)
        try:
            return await sender.send(f"https://{host}:{port}/x", {}, b"{}")
        finally:
            await sender.close()

    with receiving(server) as receiver:
        port = receiver.url.rpartition(":")[2]
        assert asyncio.run(attempt(name, port, trusted)).kind == "delivered"
        assert asyncio.run(attempt("other.example.org", port, trusted)).kind == "unreachable"
        assert asyncio.run(attempt(name, port, None)).kind == "unreachable"
        assert len(receiver.messages) == 1
