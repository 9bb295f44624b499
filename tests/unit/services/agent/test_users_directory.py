"""What a user lays into an agent's way is neither followed nor changed with the agent's rights."""

import os
import stat

import pytest

from rankd.core.errors import Refused
from rankd.services.agent.users_directory import make_top, make_users_directory
from rankd.services.keeper.proc import Identity

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories to other users")
USER, OTHER = 12_345, 12_346
ALICE = Identity(name="alice", uid=USER, gid=USER, groups=[USER])


@pytest.fixture
def top(tmp_path):
    return make_top(tmp_path / "output")


@needs_root
@pytest.mark.parametrize("was_there", [False, True])
def test_a_user_gets_a_directory_that_nobody_else_enters(top, was_there):
    if was_there:
        (top / "alice").mkdir(mode=0o755)
    own = make_users_directory(top, ALICE)
    assert (own, own.stat().st_uid, own.stat().st_gid) == (top / "alice", USER, USER)
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert make_users_directory(top, ALICE) == own
    assert stat.S_IMODE(top.stat().st_mode) == 0o711


@needs_root
def test_a_link_in_its_place_is_not_followed(top, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    (top / "alice").symlink_to(victim)
    with pytest.raises(Refused, match="name files by --output"):
        make_users_directory(top, ALICE)
    assert (victim.stat().st_uid, stat.S_IMODE(victim.stat().st_mode)) == (0, 0o755)


@needs_root
def test_a_hard_link_to_a_file_in_its_place_is_not_given_away(top, tmp_path):
    (tmp_path / "shadow").write_text("secret")
    (top / "alice").hardlink_to(tmp_path / "shadow")
    with pytest.raises(Refused, match="can't make"):
        make_users_directory(top, ALICE)
    assert (tmp_path / "shadow").stat().st_uid == 0


@needs_root
def test_a_directory_of_another_user_is_not_taken_from_that_user(top):
    (top / "alice").mkdir()
    os.chown(top / "alice", OTHER, OTHER)
    with pytest.raises(Refused, match=f"it belongs to user {OTHER}"):
        make_users_directory(top, ALICE)
    assert (top / "alice").stat().st_uid == OTHER


@pytest.mark.parametrize("name", ["..", ".", "a/b"])
def test_a_name_that_leads_elsewhere_is_refused(top, name):
    with pytest.raises(Refused, match="can't be the name of a directory"):
        make_users_directory(top, Identity(name=name, uid=USER, gid=USER, groups=[]))


@needs_root
def test_a_link_of_a_user_leads_where_it_led_at_the_start(tmp_path):
    """A link in a directory for all may be changed later, so the path without it counts."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert make_top(tmp_path / "link") == tmp_path / "real"
