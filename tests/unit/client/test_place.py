from pathlib import Path

import pytest

from rankd.bus.tls_files import TlsFiles
from rankd.client.place import Given, locate
from rankd.client.place_rule import Named


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))


def test_what_a_program_names_counts_before_its_environment():
    environment = {"RANKD_NATS": "nats://there:1", "RANKD_CREDS": "/theirs", "RANKD_USER": "bob"}
    place = locate(Given(), environment)
    assert (place.nats, place.creds, place.acts_as, place.by_bus) == ("nats://there:1", Path("/theirs"), "bob", True)
    place = locate(Given(Named(nats="nats://here:1"), "/own", "alice"), environment)
    assert (place.nats, place.creds, place.acts_as, place.by_bus) == ("nats://here:1", Path("/own"), "alice", True)


def test_files_for_encryption_are_completed_one_by_one():
    environment = {"RANKD_NATS": "tls://there:1", "RANKD_CA": "/their/ca", "RANKD_TLS_CERT": "/their/cert"}
    place = locate(Given(tls=TlsFiles(ca=Path("/own/ca"))), environment)
    assert place.tls == TlsFiles(Path("/own/ca"), Path("/their/cert"), None)
