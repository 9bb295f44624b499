from pathlib import Path

import pytest

from rankd.core.errors import Refused
from rankd.services.agent.own_credentials import check_private, check_role

FILE = Path("n2.creds")


@pytest.mark.parametrize(
    ("role", "name", "nodes"),
    [("node", "n1", ["n1"]), ("services", "", ["n1"]), ("services", "", ["sim-1", "sim-2"]), (None, "", ["n1"])],
)
def test_a_nodes_own_credentials_and_the_services_are_right(role, name, nodes):
    check_role(role, name, nodes, FILE)


@pytest.mark.parametrize(
    ("role", "name", "nodes", "texts"),
    [
        ("node", "n2", ["n1"], ["those of node 'n2'", "represents node 'n1'", "--name n2", "auth creds --node n1"]),
        ("user", "alice", ["n1"], ["those of user 'alice'", "auth creds --node n1"]),
        ("administrator", "root", ["n1"], ["those of administrator 'root'"]),
        ("node", "sim-1", ["sim-1", "sim-2"], ["2 nodes, from 'sim-1' on"]),
    ],
)
def test_those_of_somebody_else_are_named_with_what_to_do(role, name, nodes, texts):
    with pytest.raises(Refused) as refused:
        check_role(role, name, nodes, FILE)
    assert refused.value.code == "wrong_node"
    assert [text for text in texts if text not in refused.value.message] == []


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_credentials_that_jobs_could_read_are_refused(tmp_path, mode):
    file = tmp_path / "n1.creds"
    file.write_text("x")
    file.chmod(0o600)
    check_private(file)
    file.chmod(mode)
    with pytest.raises(Refused, match=f"chmod 600 {file}"):
        check_private(file)


def test_a_file_that_is_not_there_is_for_its_reader_to_report(tmp_path):
    check_private(tmp_path / "none")
