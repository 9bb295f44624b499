"""Frames survive any division of the bytes, and a length that no sender writes is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.services.keeper.relay_frame import HEAD, MOST_BYTES, BadFrame, Frames, frame

KINDS = st.sampled_from([b"o", b"e", b"i"])


@given(st.lists(st.tuples(KINDS, st.integers(0, 2**64 - 1), st.binary(max_size=40))), st.integers(1, 30))
def test_frames_are_the_same_however_their_bytes_are_divided(sent, size):
    content, frames, found = b"".join(frame(*one) for one in sent), Frames(), []
    for first in range(0, len(content), size):
        found += frames.feed(content[first : first + size])
    assert found == sent


def test_a_frame_longer_than_any_is_refused_before_it_is_read():
    with pytest.raises(BadFrame):
        Frames().feed(HEAD.pack(b"o", MOST_BYTES + 1, 0))
