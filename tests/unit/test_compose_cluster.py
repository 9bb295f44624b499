"""docker-compose.cluster.yml: any one of its machines may be lost, and no container has more rights than it needs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rankd.cli.main import _parser
from rankd.config.configuration import load_configuration

ROOT = Path(__file__).parents[2]
SERVICES = yaml.safe_load((ROOT / "docker-compose.cluster.yml").read_text())["services"]
OF_HEADS = ("intake", "prioritizer", "scheduler", "forecaster")
BROKERS = ["b1", "b2", "b3"]
RANKD = [name for name, service in SERVICES.items() if service["image"].startswith("rankd:")]


def test_there_are_three_brokers_two_database_servers_two_heads_and_two_nodes():
    assert [name for name, service in SERVICES.items() if service["image"].startswith("nats:")] == BROKERS
    assert {"pg-1", "pg-2"} < {name for name, service in SERVICES.items() if service["image"].startswith("postgres:")}
    heads = {name for name in SERVICES if name.startswith("head-")}
    assert heads == {f"head-{number}-{name}" for number in (1, 2) for name in OF_HEADS}
    assert {name for name in SERVICES if name.startswith("agent-")} == {"agent-1", "agent-2"}


def test_streams_are_stored_on_every_broker_and_every_client_knows_all_of_them():
    assert load_configuration(ROOT / "config" / "cluster").settings.nats.replicas == len(BROKERS)
    urls = ",".join(f"tls://{name}:4222" for name in BROKERS)
    assert {SERVICES[name]["environment"]["RANKD_NATS"] for name in RANKD} == {urls}
    words = SERVICES["site"]["command"]
    assert [words[place + 1] for place, word in enumerate(words) if word == "--broker"] == [f"{n}={n}" for n in BROKERS]


def test_services_find_whichever_server_takes_writes_and_no_password_is_in_a_command():
    urls = {SERVICES[name]["environment"].get("RANKD_DB") for name in RANKD} - {None}
    assert len(urls) == 1
    [url] = urls
    assert url.endswith("@pg-1,pg-2/rankd?target_session_attrs=read-write")
    assert not any("RANKD_DB_PASSWORD" in str(service.get("command")) for service in SERVICES.values())
    assert all("RANKD_DB" not in SERVICES[name]["environment"] for name in ("agent-1", "agent-2"))


def test_nothing_is_written_before_commits_wait_for_the_standby():
    assert SERVICES["schema"]["depends_on"]["replication"] == {"condition": "service_completed_successfully"}
    [script] = SERVICES["replication"]["command"][2:]
    assert script.index("streaming") < script.index("synchronous_standby_names = 'standby'")
    for name in SERVICES:
        if name.startswith("head-"):
            assert SERVICES[name]["depends_on"]["schema"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("name", [*RANKD, *BROKERS])
def test_a_container_has_no_right_that_it_does_not_need(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "devices", "pid", "ipc", "cgroup", "ports"} & set(service)
    assert ("cap_add" in service) == (service["user"] == "root") == name.startswith("agent-")


def test_a_job_can_write_nothing_that_the_services_use():
    for name in ("agent-1", "agent-2"):
        mounts = [text.split(":") for text in SERVICES[name]["volumes"]]
        assert [volume for volume, _, *mode in mounts if mode != ["ro"]] == [name]
        assert [place for volume, place, *_ in mounts if volume == "node-creds"] == ["/root/node-creds"]


@pytest.mark.parametrize("name", [name for name in RANKD if "entrypoint" not in SERVICES[name]])
def test_the_command_is_one_that_exists(name):
    words = SERVICES[name]["command"]
    assert _parser(words[0]).parse_args(words).run


def test_the_configuration_is_the_shipped_one_but_for_the_copies_of_streams():
    shipped, own = ((ROOT / "config" / name / "rankd.toml").read_text().splitlines() for name in (".", "cluster"))
    differing = [line.partition("#")[0].strip() for line, other in zip(own, shipped, strict=True) if line != other]
    assert differing == ["[nats]", "replicas = 3"]
