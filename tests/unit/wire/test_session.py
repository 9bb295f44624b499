"""The messages of sessions: what users send is bounded, and every union can be told apart."""

import msgspec
import pytest

from rankd.core.errors import Refused
from rankd.wire.codec import decode_strict, encode
from rankd.wire.session import (
    CONSUMED_BYTES,
    FORGET_S,
    GRANTED_S,
    INPUT_MESSAGE_BYTES,
    INPUT_WINDOW_BYTES,
    MESSAGE_BYTES,
    RENEW_S,
    WINDOW_BYTES,
    Again,
    Alive,
    Consumed,
    Exited,
    FromClient,
    FromNode,
    InputEnd,
    InputTaken,
    JobLog,
    Leave,
    SendSignal,
    WindowSize,
)


@pytest.mark.parametrize(
    "message",
    [
        Consumed(stream="stdout", offset=3), Again(stream="stderr", offset=0), Alive(), Leave(), SendSignal(number=15),
        WindowSize(columns=80, rows=24), InputEnd(offset=9),
    ],
)  # fmt: skip
def test_what_a_client_sends_is_read_as_what_it_is(message):
    assert msgspec.json.decode(encode(message), type=FromClient) == message


@pytest.mark.parametrize("message", [InputTaken(offset=3, end=True), Exited(exit_status=1)])
def test_what_a_node_sends_is_read_as_what_it_is(message):
    assert msgspec.json.decode(encode(message), type=FromNode) == message


@pytest.mark.parametrize(
    "body",
    [
        {"id": 1, "session": "short"}, {"id": 1, "session": "a.b" * 8}, {"id": 1, "session": "a" * 65},
        {"id": 1, "offset": -1}, {"id": 1, "limit": 0}, {"id": 1, "stream": "pty"}, {"id": 1, "attempt": 0},
        {"id": 1, "tail_lines": -1}, {"id": 1, "node": "x" * 300}, {"id": 1, "whose": "bob"}, {},
    ],
)  # fmt: skip
def test_a_request_out_of_bounds_is_refused(body):
    with pytest.raises(Refused):
        decode_strict(encode(body), JobLog)


@pytest.mark.parametrize(
    "message", [b'{"type":"window","columns":0,"rows":1}', b'{"type":"signal","number":65}', b'{"type":"consumed"}']
)
def test_a_message_out_of_bounds_is_not_read(message):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(message, type=FromClient)


def test_a_window_holds_some_messages_and_a_session_outlives_some_renewals():
    assert WINDOW_BYTES >= 2 * MESSAGE_BYTES
    assert WINDOW_BYTES > CONSUMED_BYTES
    assert INPUT_WINDOW_BYTES >= 2 * INPUT_MESSAGE_BYTES
    assert GRANTED_S > FORGET_S > 2 * RENEW_S
