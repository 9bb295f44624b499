"""The text of an invitation, from a file or standard input."""

import io
import sys
from pathlib import Path

import pytest

from rankd.cli.common.token_source import MOST_CHARACTERS, ask_for_token, read_token_file
from rankd.core.errors import Refused


def test_a_file_is_read(tmp_path):
    (tmp_path / "token").write_text("rankd-abc\n")
    assert read_token_file(tmp_path / "token") == "rankd-abc\n"


def test_standard_input_is_read(monkeypatch):
    for read in (ask_for_token, lambda: read_token_file(Path("-"))):
        monkeypatch.setattr(sys, "stdin", io.StringIO("rankd-abc\n"))
        assert read() == "rankd-abc\n"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(Refused, match=r"none can't be used: No such file"):
        read_token_file(tmp_path / "none")


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    with pytest.raises(Refused) as refused:
        read_token_file(tmp_path / "token")
    assert refused.value.code == "bad_token"


def test_a_huge_file_is_not_read_to_its_end(tmp_path):
    (tmp_path / "token").write_text("x" * (2 * MOST_CHARACTERS))
    assert len(read_token_file(tmp_path / "token")) == MOST_CHARACTERS
