"""docker-compose.yml: checks that leave a busy machine time, and containers with no more rights than they need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rankd.cli.main import _parser, main

ROOT = Path(__file__).parents[2]
SERVICES = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
END_BY_THEMSELVES = {"credentials"}
RANKD = [name for name, service in SERVICES.items() if service["image"].startswith("rankd:")]
CHECKS = {name: SERVICES[name]["healthcheck"] for name in RANKD if name not in END_BY_THEMSELVES}
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


@pytest.mark.parametrize("name", CHECKS)
def test_the_check_asks_the_service_by_its_name(name, monkeypatch, capsys):
    kind, command, *words = CHECKS[name]["test"]
    assert (kind, command) == ("CMD", "rankd")
    monkeypatch.setenv("RANKD_NATS", "http://no-broker")
    assert main(words) == 2
    assert "is not the URL of a broker" in capsys.readouterr().err


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_has_no_right_that_it_does_not_need(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "devices", "pid", "ipc", "cgroup"} & set(service)
    assert ("cap_add" in service) == (service["user"] == "root") == (name == "agent")


def test_the_agent_has_the_same_capabilities_as_under_systemd():
    unit = (ROOT / "config" / "systemd" / "rankd-agent.service").read_text()
    bounding = re.search(r"^CapabilityBoundingSet=(.+)$", unit, re.MULTILINE)[1].split()
    assert {f"CAP_{name}" for name in SERVICES["agent"]["cap_add"]} == set(bounding)


def mounts(name: str) -> dict[str, bool]:
    """The volumes of a container, and whether it can write them."""
    found = (text.split(":") for text in SERVICES[name]["volumes"])
    return {volume: mode != ["ro"] for volume, _, *mode in found}


def test_a_job_can_write_nothing_that_the_services_use():
    """Jobs run in the agent's container. They once ran as the services' user, beside the database."""
    head, agent = mounts("head"), mounts("agent")
    assert not set(head) & set(agent)
    assert [volume for volume, is_writable in agent.items() if is_writable] == ["agent-state"]
    assert SERVICES["agent"]["user"] != SERVICES["head"]["user"]
    words = SERVICES["agent"]["command"]
    assert words[words.index("--run-as") + 1] == "submitter"


def test_no_job_reads_the_credentials_of_the_agent():
    """A job of a user who has the same number as the head's user could, wherever it may pass."""
    agent = SERVICES["agent"]
    [place] = [text.split(":")[1] for text in agent["volumes"] if text.startswith("node-creds:")]
    assert place.startswith("/root/")
    assert agent["environment"]["RANKD_CREDS"].startswith(f"{place}/")
    assert SERVICES["head"]["environment"]["RANKD_USER"] != SERVICES["head"]["user"]


def test_everybody_needs_credentials_and_the_port_is_on_loopback():
    words = [word for service in SERVICES.values() for word in service.get("command", ())]
    assert not {"--no-auth", "--no-tls"} & set(words)
    assert SERVICES["agent"]["environment"]["RANKD_NATS"].startswith("tls://")
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert [port.rpartition(":")[0].rpartition(":")[0] for port in ports] == ["127.0.0.1"] * len(ports)
    assert "127.0.0.1:4222:4222" in ports


@pytest.mark.parametrize("name", RANKD)
def test_the_command_is_one_that_exists(name):
    words = SERVICES[name]["command"]
    assert _parser(words[0]).parse_args(words).run


def test_a_job_from_a_shell_in_the_head_begins_where_a_job_of_a_node_may_be():
    """``docker compose exec head rankd submit`` sends the working directory; the head's home is closed to jobs."""
    assert SERVICES["head"]["working_dir"] == "/tmp"
    assert any(mount.startswith("/tmp:mode=1777") for mount in SERVICES["agent"]["tmpfs"])


def test_monitoring_is_a_choice_and_asks_the_ports_that_are_there():
    chosen = {name for name, service in SERVICES.items() if service.get("profiles") == ["monitoring"]}
    assert chosen == set(SERVICES) - set(RANKD) == {"prometheus", "grafana"}
    configuration = yaml.safe_load((ROOT / "config" / "monitoring" / "prometheus.yml").read_text())
    targets = configuration["scrape_configs"][0]["static_configs"][0]["targets"]
    served = {}
    for name in RANKD:
        words = SERVICES[name]["command"]
        if "--metrics" in words:
            served[name] = words[words.index("--metrics") + 1].replace("0.0.0.0", name)
    assert targets == [served["head"], served["agent"]] == list(served.values())
    for name in chosen:
        for place in (text.partition(":")[0] for text in SERVICES[name]["volumes"]):
            assert not place.startswith("./") or (ROOT / place).is_dir(), place
