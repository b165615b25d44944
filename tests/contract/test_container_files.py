"""What the image, the compose file and the pins name must exist: drift shows here, not in a deployment."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.main import get_command

from app.cli import main as cli
from app.config import PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
OWN_SERVICES = [name for name, service in COMPOSE["services"].items() if service["image"] == "hyperplane"]


def test_every_file_that_the_image_copies_is_in_the_build_context() -> None:
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
        if not source.startswith("--")
    ]
    admitted = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"]
    assert sorted(copied) == sorted(admitted)
    assert [source for source in copied if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("service", OWN_SERVICES)
def test_compose_runs_commands_and_settings_that_exist(service: str) -> None:
    part = COMPOSE["services"][service]
    name, *arguments = part["command"]
    group: Any = get_command(cli)
    command = group.commands[name]
    known_flags = {flag for parameter in command.params for flag in parameter.opts}
    assert {argument for argument in arguments if argument.startswith("--")} <= known_flags
    known_variables = {PREFIX + field.upper() for field in Settings.model_fields}
    assert set(part["environment"]) <= known_variables


def test_only_loopback_is_published() -> None:
    published = [port for part in COMPOSE["services"].values() for port in part.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_image_runs_unprivileged_and_stops_on_sigterm() -> None:
    final_stage = DOCKERFILE.rpartition("\nFROM ")[2]
    user, _, group = re.findall(r"^USER (\S+)$", final_stage, re.MULTILINE)[-1].partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert "STOPSIGNAL SIGTERM" in final_stage
    # exec form: a shell in between would keep the signal to itself
    assert json.loads(re.findall(r"^ENTRYPOINT (.+)$", final_stage, re.MULTILINE)[-1])


def test_every_requirement_is_pinned_once_and_without_an_address() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9.-]+==[\w.!+]+", line)] == []
    pins = {line.partition("==")[0] for line in lines}
    assert len(pins) == len(lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    named = [*project["project"]["dependencies"], *project["build-system"]["requires"], "uv"]
    named += [requirement for extra in extras for requirement in extra]
    # An extra that includes another one names the project itself; the client is installed from clients/python.
    own = {project["project"]["name"], "hyperplane-client"}
    assert {canonicalize_name(Requirement(text).name) for text in named} - pins - own == set()
