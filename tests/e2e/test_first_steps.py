"""What a new user does first: the demo and the command line. tests/e2e/test_documents.py runs the README's blocks."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.serving import Service, free_port, running_service, wait_until

HYPERPLANE = [sys.executable, "-m", "app.cli"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("service"), workers=1) as service:
        yield service


def hyperplane(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HYPERPLANE_")}
    return subprocess.run(
        [*HYPERPLANE, *arguments], env={**clean, **variables}, capture_output=True, text=True, timeout=120, check=False
    )


def test_demo_prints_what_it_found(service: Service) -> None:
    done = hyperplane("demo", "--url", service.url)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("rows", "features", "objective", "certified gap", "test accuracy", "seconds"):
        assert word in done.stdout


def test_verify_finds_everything_sound_and_a_flipped_byte(service: Service) -> None:
    service.upload(b"a,b,y\n1,2,x\n2,1,z\n")
    assert "no faults found" in hyperplane("verify", "--data-dir", str(service.data_dir)).stdout
    blob = max((service.data_dir / "blobs").glob("??/*"), key=lambda path: path.stat().st_size)
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    found = hyperplane("verify", "--data-dir", str(service.data_dir))
    assert found.returncode == 1
    assert "damaged (its bytes have another hash)" in found.stdout
    content[-1] ^= 1
    blob.write_bytes(content)


def test_config_says_where_a_value_comes_from() -> None:
    shown = hyperplane(
        "config", HYPERPLANE_PORT="9001", HYPERPLANE_WOKERS="3", HYPERPLANE_DATABASE_URL="postgresql://me:secret@h/d"
    )
    assert re.search(r"HYPERPLANE_PORT +9001 +\(HYPERPLANE_PORT\)", shown.stdout)
    assert re.search(r"HYPERPLANE_HOST +127.0.0.1 +\(default\)", shown.stdout)
    assert "secret" not in shown.stdout
    assert "HYPERPLANE_WOKERS" in shown.stderr


def test_a_wrong_setting_is_named() -> None:
    done = hyperplane("serve", HYPERPLANE_PORT="many")
    assert done.returncode == 2
    assert "HYPERPLANE_PORT" in done.stderr


def test_a_foreign_address_needs_a_key(tmp_path: Path) -> None:
    refused = hyperplane("serve", "--host", "0.0.0.0", "--data-dir", str(tmp_path), "--port", str(free_port()))
    assert refused.returncode == 2
    assert "keys create --admin" in refused.stderr


def test_a_key_opens_and_a_revoked_one_does_not(tmp_path: Path) -> None:
    made = hyperplane("keys", "create", "--admin", "--data-dir", str(tmp_path))
    token = made.stdout.strip()
    with running_service(tmp_path, workers=0, host="0.0.0.0") as service:
        assert service.http.get("/v1/jobs").status_code == 401
        with_key = {"Authorization": f"Bearer {token}"}
        assert service.http.get("/v1/jobs", headers=with_key).status_code == 200
        assert hyperplane("keys", "revoke", token.partition(".")[0], "--data-dir", str(tmp_path)).returncode == 0
        wait_until(
            lambda: service.http.get("/v1/jobs", headers=with_key).status_code == 401, 10, "the key to be refused"
        )
        listed = hyperplane("keys", "list", "--data-dir", str(tmp_path)).stdout
        assert "revoked" in listed
        assert token.partition(".")[2] not in listed


def test_a_port_in_use_is_said(service: Service, tmp_path: Path) -> None:
    done = hyperplane("serve", "--port", str(service.port), "--data-dir", str(tmp_path), "--workers", "0")
    assert done.returncode == 1
    assert "address already in use" in done.stderr
