"""Numbers of devices, and the forms in which the kernel takes a denial."""

import os
import struct

import pytest

from rankd.services.keeper.device_rule import DeviceNumber, denial, number_of, program

ZERO = DeviceNumber("c", 1, 5)


def run(content: bytes, access_type: int, major: int, minor: int) -> int:
    """What the kernel's interpreter returns for the few instructions that are used."""
    registers, context, at = [0] * 11, struct.pack("=III", access_type, major, minor), 0
    steps = [struct.unpack_from("=BBhi", content, first) for first in range(0, len(content), 8)]
    while True:
        code, between, offset, value = steps[at]
        to, at = between & 15, at + 1
        if code == 0x61:
            assert between >> 4 == 1, "only the context is read"
            registers[to] = struct.unpack_from("=I", context, offset)[0]
        elif code == 0x57:
            registers[to] &= value
        elif code == 0x55:
            at += offset if registers[to] != value else 0
        elif code == 0xB7:
            registers[to] = value
        else:
            assert code == 0x95
            return registers[0]


@pytest.mark.parametrize("access", [1, 2, 4, 6], ids=["mknod", "read", "write", "both"])
def test_a_program_denies_every_access_to_what_is_denied_and_no_other(access):
    denied = {DeviceNumber("c", 195, 0), DeviceNumber("c", 195, 3), DeviceNumber("b", 7, 1_048_575)}
    content = program(sorted(denied))
    for kind, number in (("c", 2), ("b", 1)):
        for major in (1, 7, 195):
            for minor in (0, 1, 3, 1_048_575):
                is_allowed = run(content, access << 16 | number, major, minor)
                assert is_allowed == (DeviceNumber(kind, major, minor) not in denied)


def test_a_program_without_devices_allows_all():
    assert run(program([]), 2 << 16 | 2, 1, 5) == 1


def test_version_1_denies_reading_writing_and_making():
    assert denial(ZERO) == "c 1:5 rwm"


def test_the_number_is_that_of_the_device_behind_the_path(tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    assert number_of(str(tmp_path / "link")) == number_of("/dev/zero") == ZERO


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device files")
def test_a_number_has_a_kind(tmp_path):
    os.mknod(tmp_path / "disk", 0o060600, os.makedev(1, 5))
    assert number_of(str(tmp_path / "disk")) == DeviceNumber("b", 1, 5)


def test_what_is_no_device_has_no_number(tmp_path):
    assert number_of(str(tmp_path)) is None
    with pytest.raises(FileNotFoundError):
        number_of(str(tmp_path / "missing"))
