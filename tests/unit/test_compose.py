"""The health checks of docker-compose.yml leave a busy machine time, and are commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rankd.cli.main import main

SERVICES = yaml.safe_load((Path(__file__).parents[2] / "docker-compose.yml").read_text())["services"]
CHECKS = {name: service["healthcheck"] for name, service in SERVICES.items() if name != "migrate"}
LEAST_S = 30


def seconds(text: str) -> int:
    return int(re.fullmatch(r"([0-9]+)s", text)[1])


@pytest.mark.parametrize("name", CHECKS)
def test_a_slow_answer_is_not_taken_for_none(name):
    check = CHECKS[name]
    assert seconds(check["timeout"]) >= LEAST_S
    assert seconds(check["start_period"]) >= LEAST_S
    assert 0 < seconds(check["interval"]) <= LEAST_S
    waits = re.findall(r"(?:--timeout|-T) ([0-9]+)", " ".join(check["test"]))
    assert [LEAST_S > int(wait) > 2 for wait in waits] == [True]


@pytest.mark.parametrize("name", [name for name in CHECKS if name != "nats"])
def test_the_check_asks_the_service_by_its_name(name, monkeypatch, capsys):
    kind, command, *words = CHECKS[name]["test"]
    assert (kind, command) == ("CMD", "rankd")
    monkeypatch.setenv("RANKD_NATS", "http://no-broker")
    assert main(words) == 2
    assert "is not the URL of a broker" in capsys.readouterr().err
