"""Sessions from another host that shares nothing but the broker: no directory, no database, another home, encrypted.

The commands run in a network namespace of their own, in which the site's directory is hidden by an empty one.
"""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import time

import pytest
from system.conftest import RANKD
from system.home import Home
from system.test_enrolment import elsewhere  # noqa: F401 - a fixture
from watch import PATIENCE_S

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"), reason="only root can make a second host"
)
HIDE = 'mount -t tmpfs none "$0" && export TMPDIR="$1" && shift && exec "$@"'
"""Hides a directory in a name space of mounts, then runs the other words. ``ip netns exec`` has made that space."""


class Host:
    """Commands of one user there."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def ran(self, *words: str, given: bytes = b"", status: int = 0) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            self.words(*words), input=given, capture_output=True, check=False, env=self.home.environment(),
            cwd=self.home.directory, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == status, done
        return done

    def words(self, *words: str) -> list[str]:
        return [*self.home.before, *RANKD, *words]


@pytest.fixture
def host(machine, elsewhere, tmp_path):  # noqa: F811
    """A user who has logged in there."""
    address, there = elsewhere
    machine.start("--listen", address, "--name", "here")
    (tmp_path / "alice" / "tmp").mkdir(parents=True)
    hidden = [*there, "sh", "-c", HIDE, str(machine.directory), str(tmp_path / "alice" / "tmp")]
    alice = Home(tmp_path / "alice", *hidden)
    assert f"you are user 'alice' at tls://{address}:" in alice.run(
        "login", token=machine.rankd("auth", "invite", "alice")
    )
    return Host(alice)


def screen_of(host: Host, *words: str, until: bytes, then: bytes) -> tuple[int, bytes]:
    """Run a command in a terminal; once it shows ``until``, type ``then``. Returns its status and what it has shown."""
    process, terminal = pty.fork()
    if process == 0:  # pragma: no cover - the child
        os.chdir(host.home.directory)
        command = host.words(*words)
        os.execvpe(command[0], command, host.home.environment() | {"TERM": "xterm"})
    shown, has_typed, end = b"", False, time.monotonic() + PATIENCE_S
    with contextlib.suppress(OSError):  # how a terminal says that nobody has it open
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                part = os.read(terminal, 65_536)
                if not part:
                    break
                shown += part
            if not has_typed and until in shown:
                os.write(terminal, then)
                has_typed = True
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), shown


def test_everything_of_a_session_works_from_a_host_that_shares_only_the_broker(host, machine):
    """One site, one user: logging in, submitting, following, running, a terminal, joining again, a shell."""
    seen = subprocess.run([*host.home.before, "ls", "-A", str(machine.directory)], capture_output=True, check=True)
    assert seen.stdout == b"", "the host sees no file of the site"
    content = os.urandom(700_000)
    assert host.ran("run", "--", "cat", given=content).stdout == content
    job = host.ran(
        "submit", "--parsable", "--", "sh", "-c", "echo begun; sleep 1; echo over >&2; exit 4"
    ).stdout.strip()
    followed = host.ran("logs", "-f", "--both", job.decode(), status=4)
    assert (followed.stdout, followed.stderr.endswith(b"over\n")) == (b"begun\n", True)
    status, shown = screen_of(
        host, "run", "--pty", "--", "sh", "-c", "tty; read x; echo got $x; exit 6", until=b"/dev/pts", then=b"keys\r"
    )
    assert (status, b"got keys" in shown) == (6, True), shown

    first = subprocess.Popen(
        host.words("run", "-J", "stays", "--detach-ok", "--", "sh", "-c", "echo begun; read x; echo got $x; exit 7"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=host.home.environment(), cwd=host.home.directory,
    )  # fmt: skip
    assert first.stdout.readline() == b"begun\n"
    [row] = machine.rows("SELECT id FROM job WHERE name = 'stays'")
    shell = host.ran("shell", str(row["id"]), "--", "sh", "-c", "echo $RANKD_JOB_ID; cat; exit 3", given=b"x", status=3)
    assert shell.stdout == b"%d\nx" % row["id"]
    first.kill()
    first.communicate()
    assert host.ran("attach", str(row["id"]), given=b"hello\n", status=7).stdout == b"begun\ngot hello\n"
