"""The link signs in once."""

import stat
from urllib.parse import parse_qs, urlsplit

from rankd.services.web.sign_in_link import LINK_FILE, new_link, read_link, spend


def token_of(link):
    return parse_qs(urlsplit(link).query)["token"][0]


def test_a_link_signs_in_once(tmp_path):
    token = token_of(new_link(tmp_path, "http://127.0.0.1:1"))
    assert not spend(tmp_path, "x")
    assert not spend(tmp_path, "")
    assert spend(tmp_path, token)
    assert not spend(tmp_path, token)
    assert read_link(tmp_path) is None


def test_a_new_link_ends_the_one_before(tmp_path):
    before = token_of(new_link(tmp_path, "http://127.0.0.1:1"))
    after = token_of(new_link(tmp_path, "http://127.0.0.1:1"))
    assert not spend(tmp_path, before)
    assert spend(tmp_path, after)


def test_only_its_owner_can_read_it(tmp_path):
    new_link(tmp_path, "http://127.0.0.1:1")
    assert stat.S_IMODE((tmp_path / LINK_FILE).stat().st_mode) == 0o600


def test_a_file_that_holds_something_else_signs_nobody_in(tmp_path):
    (tmp_path / LINK_FILE).write_bytes(b"\xff\n")
    assert not spend(tmp_path, "")
