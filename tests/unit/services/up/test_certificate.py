"""The certificate of the embedded broker: whose names it has, and what an administrator's own one must be."""

import os
import stat

import pytest
from certificates import Authority

from rankd.bus.tls_files import TlsFiles
from rankd.core.errors import Refused
from rankd.identity.authority import names_in
from rankd.identity.site import open_site, read_site
from rankd.services.up.certificate import certify, own_names
from rankd.services.up.command import UpOptions

NOW = 1_800_000_000.0


def options(directory, **changes):
    return UpOptions(**{"directory": directory, "config": directory, "agent_name": "n", "is_encrypted": True} | changes)


def files(directory):
    return {path.name for path in directory.iterdir()}


def test_the_names_are_those_of_this_machine():
    node = os.uname().nodename
    assert set(own_names("192.0.2.7")) == {node, node.partition(".")[0], "192.0.2.7", "localhost", "127.0.0.1", "::1"}
    assert own_names("192.0.2.7", ["head.lab"])[0] == "head.lab"
    everywhere = own_names("0.0.0.0")
    assert "0.0.0.0" not in everywhere
    assert "127.0.0.1" in everywhere
    assert len(set(everywhere)) == len(everywhere)


def test_it_is_made_anew_at_each_start_and_the_key_is_private(tmp_path):
    site = open_site(tmp_path)
    first = certify(options(tmp_path, listen="127.0.0.2", tls_names=("head.lab",)), site, tmp_path, NOW)
    assert first.host == "127.0.0.2"
    assert {"head.lab", "127.0.0.2"} <= set(names_in(first.certificate))
    assert stat.S_IMODE(first.key.stat().st_mode) == 0o600
    assert read_site(tmp_path).ca.startswith("-----BEGIN CERTIFICATE-----")
    key = first.key.read_text()
    second = certify(options(tmp_path), site, tmp_path, NOW)
    assert second.key.read_text() != key
    assert second.host == "127.0.0.1"


def test_without_encryption_nothing_of_it_stays(tmp_path):
    """Credentials would else demand it of a broker that does not encrypt."""
    site = open_site(tmp_path)
    certify(options(tmp_path), site, tmp_path, NOW)
    assert certify(options(tmp_path, is_encrypted=False), site, tmp_path, NOW) is None
    assert files(tmp_path) == {"site.key"}


def test_a_given_certificate_is_used_by_a_name_that_it_has(tmp_path):
    site = open_site(tmp_path)
    (tmp_path / "own").mkdir()
    authority = Authority(tmp_path / "own")
    pair = authority.issue("broker", "elsewhere.invalid", "localhost")
    certify(options(tmp_path), site, tmp_path, NOW)  # what was made before goes
    given = options(tmp_path, tls=TlsFiles(authority.ca, *pair))
    certified = certify(given, site, tmp_path, NOW)
    assert certified == (pair.certificate, pair.key, "localhost")
    assert files(tmp_path) == {"site.key", "own", "ca.pem"}
    assert read_site(tmp_path).ca == authority.ca.read_text()


def test_without_its_ca_clients_use_those_of_their_systems(tmp_path):
    site = open_site(tmp_path)
    certify(options(tmp_path), site, tmp_path, NOW)
    (tmp_path / "own").mkdir()
    pair = Authority(tmp_path / "own").issue("broker", "127.0.0.1")
    certify(options(tmp_path, tls=TlsFiles(None, *pair)), site, tmp_path, NOW)
    assert read_site(tmp_path).ca == ""


@pytest.mark.parametrize(
    ("names", "listen", "said"),
    [
        (["elsewhere.invalid"], "0.0.0.0", "is for elsewhere.invalid, and none of these leads to 0.0.0.0"),
        (["192.0.2.7"], "127.0.0.1", "none of these leads to 127.0.0.1"),
        (["127.0.0.1"], "127.0.0.2", "none of these leads to 127.0.0.2"),
    ],
)
def test_a_given_certificate_that_no_process_here_could_check_is_refused(tmp_path, names, listen, said):
    authority = Authority(tmp_path)
    tls = TlsFiles(authority.ca, *authority.issue("broker", *names))
    with pytest.raises(Refused, match=said) as refused:
        certify(options(tmp_path, listen=listen, tls=tls), open_site(tmp_path), tmp_path, NOW)
    assert refused.value.code == "bad_certificate"


def test_files_that_can_not_be_used_are_named_at_the_start(tmp_path):
    authority = Authority(tmp_path)
    one, two = authority.issue("one", "localhost"), authority.issue("two", "localhost")
    site = open_site(tmp_path)
    for tls in (
        TlsFiles(None, tmp_path / "none.pem", one.key),
        TlsFiles(None, one.certificate, two.key),
        TlsFiles(tmp_path / "none.pem", *one),
    ):
        with pytest.raises(Refused, match=r"can't be used for encrypted connections") as refused:
            certify(options(tmp_path, tls=tls), site, tmp_path, NOW)
        assert refused.value.code == "bad_certificate"
