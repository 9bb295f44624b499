"""The embedded broker keeps its data where it was told to, whatever characters the directory's name has."""

from __future__ import annotations

import subprocess

import pytest

from rankd.services.up.broker import find_server, write_configuration

NAMES = [
    "plain",
    "with blank",
    "it's",
    'say "yes"',
    "back\\slash",
    "new\nline",
    "a\ttab",
    "$HOME",
    "# comment",
    "// comment",
    "{open",
    "close}",
    "a; port: 1",
    "';\nport: 1\n#",
    '"}\njetstream: disabled\n#',
    "100%",
    "böse 日本",
    "\x1b[31m",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_data_is_in_the_directory_whatever_its_name(tmp_path, name):
    directory = tmp_path / name
    configuration = write_configuration(directory, "127.0.0.1", -1)
    server = subprocess.Popen([find_server(), "--config", str(configuration)], stderr=subprocess.PIPE, text=True)
    try:
        said = []
        for line in server.stderr:
            said.append(line)
            if "Server is ready" in line:
                break
        else:
            raise AssertionError("nats-server ended:\n" + "".join(said))
    finally:
        server.terminate()
        server.communicate()
    assert sorted(path.name for path in directory.iterdir()) == ["jetstream", "server.conf"]
    assert (directory / "jetstream" / "jetstream").is_dir()
