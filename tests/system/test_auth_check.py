"""``rankd auth check``: against a `rankd up`, and against a server of an administrator's own, over the command line."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import time
from pathlib import Path

import nats
import pytest
from system.conftest import RANKD
from watch import PATIENCE_S

from rankd.identity.claims import AccountClaims, account_token, operator_token
from rankd.identity.credentials import read_credentials
from rankd.identity.key import KeyKind, new_key


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
        "node-n1.creds", "notifier.creds", "services.creds", "user-al%20ice.creds", "user-root.creds",
    ]  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in credentials.iterdir()} == {0o600}
    assert not re.search(r"\bS[AOU][A-Z2-7]{56}\b", printed.stdout)  # no seed
    good, bad = tmp_path / "good.conf", tmp_path / "bad.conf"
    beginning = f'host: 127.0.0.1\nport: -1\njetstream {{ store_dir: "{tmp_path}/js" }}\n'
    good.write_text(beginning + printed.stdout)
    bad.write_text(
        beginning + printed.stdout.replace('subject: "rankd.v1.user.root.>"', 'subject: "rankd.v1.user.*.>"')
    )
    files = [str(path) for path in credentials.iterdir()]
    seed = read_credentials(credentials / "notifier.creds").seed
    for configuration, status, text in ((good, 0, "all as it must be"), (bad, 1, "WRONG")):
        with served(configuration) as url:
            done = rankd(tmp_path, "auth", "check", "--nats", url, *files)
            assert (done.returncode, text in done.stdout) == (status, True), done.stdout + done.stderr
            assert asyncio.run(refused_of_notifier(url, nkeys_seed_str=seed)) == NEVER_OF_NOTIFIER


NEVER_OF_NOTIFIER = ["rankd.v1.admin.root.job.cancel", "rankd.v1.event.job.alice", "$JS.API.STREAM.NAMES"]


async def refused_of_notifier(url: str, **credentials: str) -> list[str]:
    """Those of these subjects that the broker does not let the notifier publish on; its own ones are no error."""
    refused = asyncio.Queue()

    async def on_error(error: Exception) -> None:
        refused.put_nowait(str(error))

    client = await nats.connect(url, error_cb=on_error, inbox_prefix=b"_INBOX.notifier", **credentials)
    found = []
    try:
        await client.subscribe("rankd.v1.internal.health.notifier")
        await client.publish("rankd.v1.internal.committed", b"{}")
        for subject in NEVER_OF_NOTIFIER:
            await client.publish(subject, b"{}")
            async with asyncio.timeout(PATIENCE_S):
                found.append(re.search(r'to "([^"]+)"', await refused.get(), re.IGNORECASE)[1])
    finally:
        await client.close()
    return [subject for subject in NEVER_OF_NOTIFIER if subject.lower() in [one.lower() for one in found]]


OPERATOR = """
operator: {operator}
system_account: {system}
host: 127.0.0.1
port: -1
jetstream {{ store_dir: "{directory}/js" }}
"""


@pytest.mark.parametrize("resolver", ["memory", "full"])
def test_a_server_in_operator_mode_with_accounts_signed_by_its_operator(tmp_path, resolver):
    """The operator, its system account and the resolver are the site's own, as ``nsc`` makes them."""
    operator, system, now = new_key(KeyKind.OPERATOR), new_key(KeyKind.ACCOUNT), time.time()
    key = tmp_path / "O.nk"
    key.write_text(operator.seed + "\n")
    words = ("auth", "init", "--external", "--dir", "site", "--operator-key", str(key), "--admin", "root",
             "--user", "al ice", "--node", "n1")  # fmt: skip
    printed = rankd(tmp_path, *words)
    assert printed.returncode == 0, printed.stderr
    credentials = tmp_path / "site" / "auth" / "external"
    text = OPERATOR.format(
        operator=operator_token(operator, system.public, now), system=system.public, directory=tmp_path
    )
    token = account_token(operator, AccountClaims(public=system.public, name="SYS"), now)
    if resolver == "memory":
        lines = printed.stdout.replace("resolver_preload {", f"resolver_preload {{\n  {system.public}: {token}")
        text += f"resolver: MEMORY\n{lines}"
    else:
        text += f'resolver {{ type: full, dir: "{credentials / "accounts"}" }}\n'
        text += f"resolver_preload {{ {system.public}: {token} }}\n"
    (tmp_path / "nats.conf").write_text(text)
    kept = [path for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert not [path for path in kept if operator.seed in path.read_text()]
    with served(tmp_path / "nats.conf") as url:
        done = rankd(tmp_path, "auth", "check", "--nats", url, *map(str, sorted(credentials.glob("*.creds"))))
        assert (done.returncode, "all as it must be" in done.stdout) == (0, True), done.stdout + done.stderr
        of_notifier = str(credentials / "notifier.creds")
        assert asyncio.run(refused_of_notifier(url, user_credentials=of_notifier)) == NEVER_OF_NOTIFIER


def test_a_file_that_holds_no_operators_key_is_refused(tmp_path):
    key = tmp_path / "A.nk"
    key.write_text(new_key(KeyKind.ACCOUNT).seed)
    words = ("auth", "init", "--external", "--dir", "site", "--operator-key", str(key), "--user", "alice")
    assert "does not hold the seed of an operator" in rankd(tmp_path, *words).stderr
    assert "is for --external" in rankd(tmp_path, "auth", "init", "--operator-key", str(key)).stderr


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
        ([], "rankd auth check: FILE is missing"),
        (["none.creds"], "none.creds can't be read"),
    ],
)
def test_files_that_are_missing_are_named(tmp_path, words, said):
    done = rankd(tmp_path, "auth", "check", "--nats", "nats://127.0.0.1:1", *words)
    assert done.returncode != 0
    assert said in done.stderr
