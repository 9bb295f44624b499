"""Directories that another user could replace."""

import os

import pytest

from rankd.core.errors import Refused
from rankd.services.runtime.unreplaceable import check_unreplaceable

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories to other users")
USER = 12_345


@needs_root
def test_a_directory_that_a_user_could_replace_is_refused(tmp_path):
    (tmp_path / "home" / "state").mkdir(parents=True)
    check_unreplaceable(tmp_path / "home" / "state", "state")
    os.chown(tmp_path / "home", USER, USER)
    with pytest.raises(Refused, match=f"home belongs to user {USER}, who could replace it") as refused:
        check_unreplaceable(tmp_path / "home" / "state", "state")
    assert (refused.value.code, refused.value.field) == ("bad_path", "state")


def test_a_directory_below_one_that_all_can_write_is_refused_unless_it_is_sticky(tmp_path):
    (tmp_path / "all" / "state").mkdir(parents=True)
    (tmp_path / "all").chmod(0o777)
    with pytest.raises(Refused, match="others than its owner can write to"):
        check_unreplaceable(tmp_path / "all" / "state", "state")
    (tmp_path / "all").chmod(0o1777)
    check_unreplaceable(tmp_path / "all" / "state", "state")
