"""Which device files a job may not open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankd.core.errors import Refused
from rankd.core.model.device import AssignedDevice, ListedDevice
from rankd.services.agent.device_denial import DeviceDenial, check_files
from rankd.services.keeper.device_rule import MOST_DENIED, DeviceNumber

NULL, ZERO, FULL, RANDOM = (DeviceNumber("c", 1, minor) for minor in (3, 5, 7, 8))


def listed(**paths: list[str]) -> list[ListedDevice]:
    return [ListedDevice(model="a100", id=id_, index=int(id_[1:]), path=tuple(paths[id_])) for id_ in paths]


def denial(**paths: list[str]) -> DeviceDenial:
    made = DeviceDenial()
    made.offer(listed(**paths))
    return made


def test_a_job_may_open_its_own_devices_files_and_no_others():
    of = denial(g0=["/dev/zero"], g1=["/dev/full"], g2=["/dev/random"])
    assert of.denied([]) == [ZERO, FULL, RANDOM]
    assert of.denied(["g1"]) == [ZERO, RANDOM]
    assert of.denied(["g0", "g1", "g2"]) == []


def test_a_file_that_devices_share_is_denied_to_jobs_with_none_of_them():
    of = denial(g0=["/dev/null", "/dev/zero"], g1=["/dev/null", "/dev/full"])
    assert of.denied(["g0"]) == [FULL]
    assert of.denied([]) == [NULL, ZERO, FULL]


def test_two_paths_of_one_device_are_one_number(tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    assert denial(g0=["/dev/zero"], g1=[str(tmp_path / "link")]).denied(["g0"]) == []


def test_the_number_is_read_when_the_job_starts_and_kept_while_the_file_is_missing(tmp_path):
    path = tmp_path / "file"
    path.symlink_to("/dev/zero")
    of = denial(g0=[str(path)])
    path.unlink()
    assert of.denied([]) == [ZERO]
    path.symlink_to("/dev/full")
    assert of.denied([]) == [FULL]


def test_a_file_that_never_existed_is_denied_once_it_exists(tmp_path):
    path = tmp_path / "file"
    of = denial(g0=[str(path)])
    assert of.denied([]) == []
    path.symlink_to("/dev/zero")
    assert of.denied([]) == [ZERO]


def test_a_card_that_is_no_longer_offered_is_denied_to_others_still():
    of = denial(g0=["/dev/zero"], g1=["/dev/full"])
    of.offer(listed(g1=["/dev/full"], g2=["/dev/random"]))
    assert of.denied(["g2"]) == [ZERO, FULL]
    again = denial(g1=["/dev/full"])
    again.deny_still(of.files_of(["g2", "g9"]))
    assert again.denied(["g1"]) == [RANDOM], "an agent that starts again knows it from the running job's claim"
    again.offer(listed(g8=["/dev/random"]))
    assert again.denied(["g8"]) == [FULL], "a job that gets this card may open it"


ALLOCATED = AssignedDevice("g1", "a100", 1, ("/dev/full",))


@pytest.mark.parametrize(
    "now",
    [
        listed(g0=["/dev/zero"]),
        [ListedDevice(model="a100", id="g1", index=0, path=("/dev/full",))],
        [ListedDevice(model="a100", id="g1", index=1, path=("/dev/zero",))],
    ],
    ids=["gone", "another index", "another file"],
)
def test_a_job_whose_devices_have_become_others_is_not_started(now):
    of = denial(g0=["/dev/zero"], g1=["/dev/full"])
    of.check([ALLOCATED, AssignedDevice("g0", "a100", 0)])
    of.offer(now)
    with pytest.raises(Refused) as refused:
        of.check([ALLOCATED])
    assert refused.value.code == "not_taken"


def test_files_of_devices_are_checked():
    check_files(["/dev/null", "/dev/zero"], has_users=True)
    for path, reason in (("/dev/missing", "No such file"), ("/etc/passwd", "is not the file of a device")):
        with pytest.raises(Refused, match=reason):
            check_files([path], has_users=False)
    with pytest.raises(Refused, match=f"at most {MOST_DENIED}"):
        check_files([f"/dev/{number}" for number in range(MOST_DENIED + 1)], has_users=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_that_a_user_could_replace_is_refused_where_jobs_have_users(tmp_path):
    directory = tmp_path / "users"
    directory.mkdir()
    path = directory / "zero"
    os.mknod(path, 0o020666, os.makedev(1, 5))
    os.chown(directory, 1234, 1234)
    check_files([str(path)], has_users=False)
    with pytest.raises(Refused, match="belongs to user 1234"):
        check_files([str(path)], has_users=True)
    assert Path(path).exists()
