"""How bytes of one node and lines of several are printed."""

import io

import pytest

from rankd.cli.look.log_printer import LONGEST_LINE, _Output


class Stream:
    def __init__(self) -> None:
        self.buffer = io.BytesIO()


def printed(node: str | None, *parts: bytes) -> bytes:
    output = _Output(stream := Stream(), node)
    for part in parts:
        output.write(part)
    output.finish()
    return stream.buffer.getvalue()


@pytest.mark.parametrize("parts", [(b"\x00\xff\n", b"a"), (b"",), (b"\r\n" * 3,)])
def test_the_bytes_of_one_node_are_as_they_are(parts):
    assert printed(None, *parts) == b"".join(parts)


def test_each_line_of_several_nodes_has_its_node_however_it_comes():
    assert printed("n1", b"on", b"e\ntwo\n\nth", b"ree") == b"n1: one\nn1: two\nn1: \nn1: three\n"
    assert printed("n1") == b""


def test_a_line_without_an_end_is_not_kept_for_ever():
    line = b"x" * (LONGEST_LINE + 1)
    assert printed("n1", line, line) == b"n1: " + line + b"\nn1: " + line + b"\n"
