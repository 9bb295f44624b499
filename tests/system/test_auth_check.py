"""``rankd auth check``: against a `rankd up`, and against a server of an administrator's own, over the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from system.conftest import RANKD


def rankd(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RANKD_")}
    return subprocess.run([*RANKD, *words], capture_output=True, text=True, check=False, cwd=directory, env=environment)


def test_the_broker_of_rankd_up_keeps_everybody_apart(machine):
    machine.start("--tls", "--no-local-agent")
    files = [machine.directory / "auth" / name for name in ("services.creds", "admin.creds")]
    files += [machine.credentials("user", "alice"), machine.credentials("node", "n1")]
    said = machine.rankd("auth", "check", *map(str, files))
    assert "all as it must be" in said
    assert "WRONG" not in said
    rows = json.loads(machine.rankd("auth", "check", "--json", *map(str, files)))
    assert {row["role"] for row in rows} == {"administrator", "user", "node"}
    assert all(row["is_right"] for row in rows)
    assert "Submitted" in machine.rankd("submit", "--", "true")  # the services took no harm
    assert machine.rankd("deadletter", "list", "--noheader") == ""


def test_a_server_of_ones_own_with_the_printed_accounts(tmp_path):
    printed = rankd(
        tmp_path, "auth", "init", "--external", "--dir", "site", "--admin", "root", "--user", "al ice", "--node", "n1"
    )
    assert printed.returncode == 0, printed.stderr
    credentials = tmp_path / "site" / "auth" / "external"
    assert sorted(path.name for path in credentials.iterdir()) == [
        "node-n1.creds", "services.creds", "user-al%20ice.creds", "user-root.creds",
    ]  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in credentials.iterdir()} == {0o600}
    assert "SU" not in printed.stdout.replace("SUBJECT", "")
    good, bad = tmp_path / "good.conf", tmp_path / "bad.conf"
    beginning = f'host: 127.0.0.1\nport: -1\njetstream {{ store_dir: "{tmp_path}/js" }}\n'
    good.write_text(beginning + printed.stdout)
    bad.write_text(
        beginning + printed.stdout.replace('subject: "rankd.v1.user.root.>"', 'subject: "rankd.v1.user.*.>"')
    )
    files = [str(path) for path in credentials.iterdir()]
    for configuration, status, text in ((good, 0, "all as it must be"), (bad, 1, "WRONG")):
        with served(configuration) as url:
            done = rankd(tmp_path, "auth", "check", "--nats", url, *files)
            assert (done.returncode, text in done.stdout) == (status, True), done.stdout + done.stderr


class served:  # noqa: N801 - used as a function
    """A server with this configuration, while the block runs."""

    def __init__(self, configuration: Path) -> None:
        binary = Path(RANKD[0]).with_name("nats-server")
        self._process = subprocess.Popen([binary, "-c", configuration], stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> str:
        for line in self._process.stderr:
            if found := re.search(r"Listening for client connections on (\S+)", line):
                url = f"nats://{found[1]}"
            if "Server is ready" in line:
                return url
        raise AssertionError("nats-server ended")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: FILE"),
        (["none.creds"], "none.creds can't be read"),
    ],
)
def test_files_that_are_missing_are_named(tmp_path, words, said):
    done = rankd(tmp_path, "auth", "check", "--nats", "nats://127.0.0.1:1", *words)
    assert done.returncode != 0
    assert said in done.stderr
