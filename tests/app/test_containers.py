"""The container files: parsed, since no engine runs here, and held against the command line."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_four_parts_are_there() -> None:
    assert set(SERVICES) == {"api", "worker", "redis", "postgres"}


@pytest.mark.parametrize("name", ["api", "worker"])
def test_their_commands_exist(name: str) -> None:
    from typer.main import get_command

    from cli.main import app

    program, command, *options = SERVICES[name]["command"]
    assert program == "lectern"
    assert command in get_command(app).commands  # type: ignore[attr-defined]
    assert options == []


def test_the_image_starts_the_same_server() -> None:
    assert f"CMD {SERVICES['api']['command']}".replace("'", '"') in DOCKERFILE


def test_their_settings_exist() -> None:
    from cli.settings import variables

    environment = dict(SERVICES["api"]["environment"])
    environment |= dict(re.findall(r"(LECTERN_\w+)=(\S+)", DOCKERFILE))
    assert environment.keys() <= variables().keys()


def test_no_password_has_a_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    uses = re.findall(r"\$\{(\w*PASSWORD)([^}]*)\}", text)
    assert {name for name, _ in uses} == {"POSTGRES_PASSWORD", "REDIS_PASSWORD"}
    assert all(rest.startswith(":?") for _, rest in uses)


def test_everything_waits_for_what_it_needs() -> None:
    for service in SERVICES.values():
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert "healthcheck" in SERVICES[other]
    assert set(SERVICES["api"]["depends_on"]) == {"postgres", "redis"}
    assert set(SERVICES["worker"]["depends_on"]) == {"postgres", "redis"}


def test_only_the_api_listens_and_only_on_this_machine() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"api"}
    assert SERVICES["api"]["ports"] == ["127.0.0.1:8080:8080"]


def test_every_volume_is_declared() -> None:
    used = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
    }
    assert used == set(COMPOSE["volumes"])


def test_the_image_runs_as_nobody_in_particular() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER lectern$", final, re.MULTILINE)
    assert "ARG EXTRA=cpu" in DOCKERFILE
