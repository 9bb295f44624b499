"""Addresses, directories and names that can't be used: one line on standard error that says why, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankd.bus.address import user_in, without_secret
from rankd.core.errors import Refused

NATS = ["--nats", "nats://127.0.0.1:1"]
LONG = "x" * 300


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "names no host"),
        ("nats://", "names no host"),
        ("nats://:4222", "names no host"),
        ("nats://host:99999", "number from 1 to 65535"),
        ("nats://host:0", "number from 1 to 65535"),
        ("nats://host:abc", "number from 1 to 65535"),
        ("nats://host:-1", "number from 1 to 65535"),
        ("nats://::1:4222", "in brackets"),
        ("nats://[::1", "Invalid IPv6"),
        ("nats://a:1,nats://b:0", "number from 1 to 65535"),
        ("nats://a:1,", "names no host"),
        ("http://host", "begins with http://"),
        ("ws://host:1", "begins with ws://"),
        ("nats://a b", "blank or a control character"),
        (" nats://host", "blank or a control character"),
        ("nats://host\n:4222", "blank or a control character"),
        ("nats://a..b", "not a host's name"),
        (f"nats://{LONG}:4222", "not a host's name"),
        ("nats://host:4222/other", "something follows the port"),
        ("nats://alice:pa/ss@host:4222", "%2F"),
        ("nats://alice:pa#ss@host:4222", "%2F"),
    ],
)
def test_what_is_not_the_url_of_a_broker_is_refused_with_the_reason(url, why):
    for read in (user_in, without_secret):
        with pytest.raises(Refused) as refused:
            read(url)
        assert refused.value.code == "usage"
        assert "is not the URL of a broker" in str(refused.value)
        assert why in str(refused.value)
        assert "ss@" not in str(refused.value)
        assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("url", "user", "shown"),
    [
        ("nats://host", None, "nats://host"),
        ("nats://host:4222/", None, "nats://host:4222/"),
        ("tls://host:65535", None, "tls://host:65535"),
        ("nats://[::1]:4222", None, "nats://[::1]:4222"),
        ("nats://bröker.example:4222", None, "nats://bröker.example:4222"),
        ("host:4222", None, "nats://host:4222"),
        ("alice:secret@host:4222", "alice", "nats://host:4222"),
        ("nats://alice:p%2Fs@host:4222", "alice", "nats://host:4222"),
        ("nats://token@host", None, "nats://host"),
    ],
)
def test_what_is_the_url_of_a_broker_is_read(url, user, shown):
    assert (user_in(url), without_secret(url)) == (user, shown)


def rankd(directory: Path, *words: str, **variables: str) -> tuple[int, str]:
    """Exit status and errors."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
    done = subprocess.run(
        [sys.executable, "-m", "rankd", *words], capture_output=True, text=True, check=False, cwd=directory,
        env=environment | variables, timeout=200,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["up", "--dir", "file"], "file can't be used: File exists"),
        (["up", "--dir", "file/below"], "file/below can't be used: Not a directory"),
        (["up", "--dir", "/proc/none"], "/proc/none can't be used: No such file or directory"),
        (["up", "--dir", LONG], "can't be used: File name too long"),
        (["up", "--dir", ""], "--dir is empty"),
        (["up", "--nats", ""], "--nats is empty"),
        (["up", "--listen", ""], "--listen is empty"),
        (["up", "--nats", "nats://"], "'nats://' is not the URL of a broker"),
        (["up", "--listen", "a..b"], "can't listen on a..b"),
        (["up", "--listen", "not an address"], "can't listen on not an address"),
        (["up", "--port", "70000"], "'70000' is not a port; write a number from 1 to 65535"),
        (["up", "--port", "-1"], "'-1' is not a port; write a number from 1 to 65535"),
        (["up", "--port", "abc"], "'abc' is not a port; write a number from 1 to 65535"),
        (["up", "--name", "a,b"], "a node's name can't contain , [ ]"),
        (["up", "--name", "a\nb"], "printable characters"),
        (["up", "--name", LONG], "(300 characters)"),
        (["up", "--name", ""], "(0 characters)"),
        (["agent", *NATS, "--state", "s", "--name", "n[1]"], "a node's name can't contain , [ ]"),
        (["agent", *NATS, "--state", "s", "--name", LONG], "(300 characters)"),
        (["agent", *NATS, "--state", "s", "--name", ""], "(0 characters)"),
        (["agent", "--nats", "nats://", "--state", "s"], "'nats://' is not the URL of a broker"),
        (["intake", "--nats", "nats://", "--db", "db"], "'nats://' is not the URL of a broker"),
        (["prioritizer", "--nats", "http://x", "--db", "db"], "'http://x' is not the URL of a broker"),
        (["scheduler", "--nats", "nats://h:0", "--db", "db"], "'nats://h:0' is not the URL of a broker"),
        (["intake", *NATS, "--db", "file/below"], "/file/below can't be used: Not a directory"),
        (["db", "upgrade", "--db", "file/below"], "file/below can't be used: File exists"),
        (["db", "upgrade", "--db", "/proc"], "the database could not be written: unable to open database file"),
        (["queue", "--nats", ""], "--nats is empty"),
        (["queue", "--dir", ""], "--dir is empty"),
        (["queue", "--db", ""], "--db is empty"),
        (["queue", *NATS, "--me", "--as", ""], "the name of the user who asks is empty"),
        (["queue", *NATS, "--as", LONG], "1 to 256 printable characters"),
        (["submit", *NATS, "--user", "a\x1bb", "--", "true"], "1 to 256 printable characters"),
    ],
)
def test_what_cannot_be_used_ends_in_a_line_that_names_it(tmp_path, words, said):
    (tmp_path / "file").touch()
    status, errors = rankd(tmp_path, *words)
    assert status in (1, 2, 3), errors
    assert said in errors.splitlines()[-1]
    assert "Traceback" not in errors


def test_a_directory_whose_name_is_not_utf_8_is_refused(tmp_path):
    directory = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    status, errors = rankd(tmp_path, "up", RANKD_DIR=directory)
    assert status == 1
    assert errors.endswith("' is not UTF-8; use another with --dir\n")
    assert "Traceback" not in errors
