"""What an agent keeps of its enrolment: private, and the record last."""

import stat

import pytest

from rankd.core.errors import Refused
from rankd.identity.credentials import read_credentials
from rankd.identity.node_file import NodeRecord, keep_node, read_node_record
from rankd.identity.site import Role, Site

CREDENTIALS = Site(bytes(32)).credentials(Role.NODE, "n1", 1.7e9, 60.0)
RECORD = NodeRecord(nats="nats://head:4222", name="n1", invitation="d")


def test_what_is_kept_is_read_and_private(tmp_path):
    (tmp_path / "node.key").write_text("of the exchange")
    keep_node(tmp_path, RECORD, CREDENTIALS)
    assert read_node_record(tmp_path) == RECORD
    assert read_credentials(tmp_path / "node.creds") == CREDENTIALS
    assert {path.name for path in tmp_path.iterdir()} == {"node.json", "node.creds"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_an_agent_that_has_not_enrolled_has_no_record(tmp_path):
    assert read_node_record(tmp_path) is None
    assert read_node_record(tmp_path / "none") is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff"])
def test_a_damaged_record_is_said(tmp_path, content):
    (tmp_path / "node.json").write_bytes(content)
    with pytest.raises(Refused, match="enrol the node again"):
        read_node_record(tmp_path)
