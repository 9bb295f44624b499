"""What tells one database file from all others."""

import pytest

from rankd.core.errors import Refused
from rankd.store.engine.site import site_of


def test_a_file_is_the_same_under_any_name(tmp_path):
    (tmp_path / "a.db").touch()
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
    (tmp_path / "c.db").hardlink_to(tmp_path / "a.db")
    assert site_of(tmp_path / "a.db") == site_of(tmp_path / "b.db") == site_of(tmp_path / "c.db")


def test_another_file_is_another_site(tmp_path):
    for name in ("a.db", "b.db"):
        (tmp_path / name).touch()
    assert site_of(tmp_path / "a.db") != site_of(tmp_path / "b.db")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(Refused, match=r"none\.db"):
        site_of(tmp_path / "none.db")
