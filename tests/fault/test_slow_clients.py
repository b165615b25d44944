"""Clients that trickle: they are refused at the deadline, and no other client waits for them."""

import socket
from collections.abc import Iterator

import pytest

from tests.support.builders import SOAK
from tests.support.serving import Service, running_service
from tests.support.tables import csv_text, noisy_rows

CLIENTS = min(1000, 100 * SOAK)
PATIENCE_SECONDS = 2.0
ROUTES = [
    "POST /v1/datasets HTTP/1.1\r\nContent-Type: text/csv",
    "POST /v1/jobs HTTP/1.1\r\nContent-Type: application/json",
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, workers=0, body_patience_seconds=PATIENCE_SECONDS) as service:
        yield service


def trickling(service: Service, route: str) -> socket.socket:
    """A client that has promised a body, sent one byte of it, and sends no more."""
    connection = socket.create_connection(("127.0.0.1", service.port), timeout=60)
    head = f"{route}\r\nHost: 127.0.0.1:{service.port}\r\nContent-Length: 1000\r\n\r\n"
    connection.sendall(head.encode() + b"1")
    return connection


@pytest.mark.parametrize("route", ROUTES)
def test_trickling_clients_are_turned_away_and_others_are_served(service: Service, route: str) -> None:
    slow = [trickling(service, route) for _ in range(CLIENTS)]
    assert service.upload(csv_text(*noisy_rows(50, 2, seed=len(route))))["status"] == "ready"
    for client in slow:
        answer = b""
        while chunk := client.recv(65_536):  # until the server closes the connection
            answer += chunk
        client.close()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"body_too_slow" in answer
    assert list((service.data_dir / "staging").iterdir()) == []
