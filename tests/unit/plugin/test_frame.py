"""Frames on a socket: whole, or an error that says why not."""

import os
import socket
import struct
import threading
import time

import pytest

from rankd.core.errors import Unavailable
from rankd.plugin.frame import receive, send


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_what_is_sent_is_received(pair, size):
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    sending = threading.Thread(target=send, args=(pair[0], b"head", payload))
    sending.start()
    frame = receive(pair[1], size)
    sending.join()
    assert (frame.header, bytes(frame.payload), frame.descriptor) == (b"head", payload, None)


def test_a_descriptor_comes_along(pair, tmp_path):
    (tmp_path / "file").write_text("content")
    with (tmp_path / "file").open() as file:
        send(pair[0], b"", b"more", file.fileno())
    frame = receive(pair[1], 4)
    with os.fdopen(frame.descriptor) as file:
        assert file.read() == "content"
    assert frame.payload == b"more"


def test_frames_keep_apart(pair):
    for number in range(3):
        send(pair[0], b"%d" % number, bytes(number))
    assert [receive(pair[1], 2).header for _ in range(3)] == [b"0", b"1", b"2"]


def test_the_end_is_an_error(pair):
    pair[0].close()
    with pytest.raises(Unavailable, match="has ended"):
        receive(pair[1], 0)


@pytest.mark.parametrize("sent", [b"\x01", struct.pack("<IQ", 4, 4) + b"he"])
def test_half_a_frame_is_an_error_once_the_other_side_is_gone_or_time_is_over(pair, sent):
    pair[0].sendall(sent)
    with pytest.raises(Unavailable, match="in the middle"):
        receive(pair[1], 4, time.monotonic())
    pair[0].close()
    with pytest.raises(Unavailable, match="has ended"):
        receive(pair[1], 4)


@pytest.mark.parametrize(("n_header", "n_payload"), [(2**31, 0), (0, 9)])
def test_more_than_expected_is_not_read(pair, n_header, n_payload):
    pair[0].sendall(struct.pack("<IQ", n_header, n_payload))
    with pytest.raises(Unavailable, match=r"an answer can.t have"):
        receive(pair[1], 8)
