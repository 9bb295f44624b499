"""docker-compose.cluster.yml: each head has every service, and nobody has more rights than needed."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import yaml

from rankd.cli.main import COMMANDS, _parser

ROOT = Path(__file__).parents[2]
SITE = yaml.safe_load((ROOT / "docker-compose.cluster.yml").read_text())
SERVICES = SITE["services"]
PAGE = (ROOT / "docs" / "how-to" / "cluster.md").read_text()
HEADS = ("head-1", "head-2")
OF_A_HEAD = {"intake", "prioritizer", "scheduler", "notifier", "forecaster", "web"}
AGENTS = ("agent-1", "agent-2")
POSTGRES = [name for name, service in SERVICES.items() if service["image"].startswith("postgres:")]
RANKD = [name for name, service in SERVICES.items() if service["image"].startswith("rankd:")]


def mounts(name: str) -> dict[str, bool]:
    """The volumes of a container, and whether it can write them."""
    found = (text.split(":") for text in SERVICES[name].get("volumes", ()))
    return {volume: mode != ["ro"] for volume, _, *mode in found}


def commands(name: str) -> list[list[str]]:
    """The words of its command; of a shell's text, of each command of rankd in it."""
    command = SERVICES[name]["command"]
    if "entrypoint" not in SERVICES[name]:
        return [command]
    return [text.split() for text in re.findall(r"(?<![\w/-])rankd ([^;|>\n]+)", command[0])]


@pytest.mark.parametrize("head", HEADS)
def test_a_head_has_every_service_but_the_gateway(head):
    """A gateway tells users apart by their ids on its machine; containers have no users."""
    found = {name.removeprefix(f"{head}-"): commands(name)[0][0] for name in SERVICES if name.startswith(head)}
    assert found == {name: name for name in OF_A_HEAD}
    services = {name for name, command in COMMANDS.items() if command.group == "Services"}
    assert services - OF_A_HEAD == {"agent", "gateway", "health", "db"}


@pytest.mark.parametrize("service", sorted(OF_A_HEAD))
def test_both_heads_are_alike(service):
    one, other = (copy.deepcopy(SERVICES[f"{head}-{service}"]) for head in HEADS)
    assert [one.pop("hostname"), other.pop("hostname")] == [f"{head}-{service}" for head in HEADS]
    if service == "web":
        for place in (one, other):
            [(address, outside, inside)] = [text.split(":") for text in place.pop("ports")]
            port = place["command"].index("--port") + 1
            assert (address, outside) == ("127.0.0.1", inside), "the link that it prints works outside, too"
            assert place["command"][port] == inside
            place["command"][port] = ""
        assert one.pop("volumes") != other.pop("volumes"), "a page's key and its link are its own"
    assert one == other


@pytest.mark.parametrize("name", RANKD)
def test_the_command_is_one_that_exists(name):
    found = commands(name)
    assert found
    for words in found:
        assert _parser(words[0]).parse_args(words).run


@pytest.mark.parametrize("name", sorted(set(SERVICES) - set(POSTGRES)))
def test_a_container_has_no_right_that_it_does_not_need(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "devices", "pid", "ipc", "cgroup", "network_mode"} & set(service)
    assert ("cap_add" in service) == (service["user"] == "root") == (name in AGENTS)


@pytest.mark.parametrize("name", [name for name in SERVICES if name.startswith(HEADS)])
def test_a_service_changes_no_secret_of_the_site(name):
    assert mounts(name)["site"] is False
    assert [volume for volume, is_writable in mounts(name).items() if is_writable] in ([], ["web-1"], ["web-2"])
    environment = SERVICES[name]["environment"]
    own = {"web": "web.creds", "notifier": "notifier.creds"}.get(name.rpartition("-")[2], "services.creds")
    assert environment["RANKD_CREDS"] == f"/var/lib/rankd/auth/{own}"


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_has_no_password_of_the_database_and_no_secret_of_the_site(name):
    assert "site" not in mounts(name)
    assert "RANKD_DB" not in SERVICES[name]["environment"]
    assert mounts(name)["node-creds"] is False


def test_ports_are_on_loopback_only():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert sorted(ports) == ["127.0.0.1:8081:8081", "127.0.0.1:8082:8082"]


@pytest.mark.parametrize("name", RANKD)
def test_everybody_knows_all_brokers_and_both_databases(name):
    environment = SERVICES[name]["environment"]
    assert environment["RANKD_NATS"] == "tls://b1:4222,tls://b2:4222,tls://b3:4222"
    if "RANKD_DB" in environment:
        assert environment["RANKD_DB"].endswith("@pg-1,pg-2/rankd?target_session_attrs=read-write")


def test_services_of_a_page_start_and_commits_wait_before_anything_is_written():
    """The schema comes after the standby; services after the schema."""
    done = "service_completed_successfully"
    assert SERVICES["schema"]["depends_on"]["replication"]["condition"] == done
    for name in SERVICES:
        if name.startswith(HEADS):
            assert SERVICES[name]["depends_on"] == {"schema": {"condition": done}}


def test_each_volume_is_declared_and_used():
    used = {volume for name in SERVICES for volume in mounts(name) if not volume.startswith("./")}
    assert used == set(SITE["volumes"])
    files = {volume for name in SERVICES for volume in mounts(name) if volume.startswith("./")}
    assert all((ROOT / file).exists() for file in files)


def test_a_directory_for_each_volume_of_rankd_is_in_the_image():
    """A new volume gets the owner of the directory that it covers. Without one, root owns it."""
    [made] = re.findall(r"install -d -m 700 ((?:.*\\\n)*.*)", (ROOT / "Dockerfile").read_text())
    for name in RANKD:
        if SERVICES[name]["user"] == "rankd":
            for text in SERVICES[name]["volumes"]:
                volume, place, *_ = text.split(":")
                assert volume.startswith("./") or place in made.split(), text


def test_the_page_names_containers_that_are_there():
    lines = [line for line in PAGE.splitlines() if "docker compose -f docker-compose.cluster.yml" in line]
    assert lines
    for line in lines:
        names = re.findall(r"\b(?:head-\d-[a-z]+|pg-\d|b\d|agent-\d|admin)\b", line)
        assert set(names) <= set(SERVICES), line
