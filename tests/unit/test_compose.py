"""compose.yaml: valid by the Compose specification, safe for the data, and open to this machine alone."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.validators import validator_for

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def test_it_follows_the_compose_specification(compose: dict[str, Any]) -> None:
    schema = json.loads(files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_bytes())
    assert "services" in schema["properties"]
    validator = validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(compose)] == []


def test_redis_loses_nothing(compose: dict[str, Any]) -> None:
    redis = compose["services"]["redis"]
    for option in ("--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"):
        assert option in redis["command"]
    volume, _, folder = redis["volumes"][0].partition(":")
    assert (volume in compose["volumes"], folder) == (True, "/data")


def test_only_this_machine_gets_in(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_port_leads_to_an_address_that_only_a_store_with_keys_opens(compose: dict[str, Any]) -> None:
    layby = compose["services"]["layby"]
    assert layby["environment"]["LAYBY_HOST"] == "0.0.0.0"
    assert layby["ports"] == ["127.0.0.1:8700:8700"]
    told = (ROOT / "compose.yaml").read_text() + (ROOT / "README.md").read_text()
    assert told.count("docker compose run --rm --build layby keys create --name me --scopes ") == 2


def test_the_image_is_built_from_files_that_the_context_holds() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ")
        for source in line.split()[1:-1]
    }
    assert copied == kept
    assert all((ROOT / name).exists() for name in kept)
