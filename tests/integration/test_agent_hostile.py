"""Whatever one job does to its keeper, that job fails and says so, and the others run on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from integration.test_agent import a_killable_agent, an_intake, keeper_of, parent_of, stage, start_of
from integration.test_agent_user import SUBMITTER, needs_root, of, reachable  # noqa: F401 - a fixture
from watch import alive, appears, gone

DEEP = "/d" * 1_100

HOSTILE = {
    "a path of 1,100 missing directories": ({"stdout": "{tmp}" + DEEP + "/out"}, 0, None),
    "a path that is too long": ({"stdout": "/tmp/" + "x" * 5_000}, 126, "File name too long (ENAMETOOLONG)"),
    "a NUL in a path": ({"stdout": "/tmp/a\0b"}, 126, "embedded null byte"),
    "a NUL in the working directory": ({"cwd": "/tmp\0"}, 126, "embedded null byte"),
    "a NUL in an argument": ({"command": ["echo", "a\0b"]}, 126, "embedded null byte"),
    "a NUL in the environment": ({"env": {"A": "\0"}}, 126, "embedded null byte"),
    "an argument of 256 KiB": ({"command": ["echo", "x" * 2**18]}, 126, "Argument list too long (E2BIG)"),
    "a pipe that nobody reads as output": ({"stdout": "{tmp}/fifo"}, 126, "No such device or address (ENXIO)"),
    "a directory as output": ({"stdout": "{tmp}"}, 126, "Is a directory (EISDIR)"),
    "a link to itself as output": ({"stdout": "{tmp}/loop"}, 126, "(ELOOP)"),
    "a time limit of no time": ({"command": ["sleep", "1000"], "time_limit_s": 1e-9}, None, None),
}


@pytest.fixture
def removed(reachable):  # noqa: F811
    """What is deeper than Python's own functions can remove must not be left to pytest."""
    yield reachable
    subprocess.run(["rm", "-rf", reachable / "d"], check=True)


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_job_harms_itself_alone(broker, removed, kind):
    tmp_path = removed
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    request, exit_status, hint = HOSTILE[kind]
    request = {key: value.replace("{tmp}", str(tmp_path)) if isinstance(value, str) else value
               for key, value in request.items()}  # fmt: skip
    command = request.pop("command", ["true"])
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
        pid = int(await appears(tmp_path / "pid"))
        await intake.start(2, *command, **request)
        end = await intake.ended(2)
        await intake.start(3, "true")
        assert (await intake.ended(3)).exit_status == 0
        assert alive(pid)
        assert not intake.of(1, "ended")
    assert end.exit_status == exit_status
    assert end.cause == (None if exit_status == 0 else "start_failed" if exit_status else "timeout")
    assert hint is None or hint in end.message


async def test_a_killed_helper_ends_its_keeper_and_another_takes_over(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, "sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
        pid = int(await appears(tmp_path / "pid"))
        await intake.started(1)
        keeper = keeper_of(pid)
        os.kill(parent_of(pid), signal.SIGKILL)
        assert (await intake.ended(1)).cause == "lost"
        await gone(keeper)
        await gone(pid)
        await intake.start(2, "true")
        assert (await intake.ended(2)).exit_status == 0


async def test_a_job_has_its_three_files_and_nothing_of_its_keepers(broker, tmp_path):
    look = "import os; print(sorted(os.listdir('/proc/self/fd'))); print(sorted(os.environ))"
    async with stage(broker, tmp_path) as intake:
        await intake.start(1, sys.executable, "-I", "-c", look)
        end = await intake.ended(1)
        await intake.start(2, "sh", "-c", "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status; umask")
        signals = Path((await intake.ended(2)).stdout).read_text()
    files = Path(end.stdout).read_text().splitlines()[0]
    assert files == "['0', '1', '2', '3']"  # the fourth is that by which it looks
    assert_default(signals)


def assert_default(signals: str) -> None:
    """Whether a process blocks and ignores no signal, by the lines of its status."""
    own = 3 << 31  # signals 32 and 33 belong to the C library, which lets nobody set them
    assert [int(line.split()[1], 16) & ~own for line in signals.splitlines()[:2]] == [0, 0]


async def test_a_job_ignores_no_signal_that_its_agent_was_started_to_ignore(broker, tmp_path):
    """A shell starts a command with ``&`` so that it ignores INT and QUIT."""
    ignoring = a_killable_agent(broker, tmp_path, ignores=["INT", "QUIT", "USR1", "TTOU"])
    async with an_intake(broker) as intake, ignoring:
        await intake.start(1, "sh", "-c", "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status")
        assert_default(Path((await intake.ended(1)).stdout).read_text())
        await intake.start(2, "sh", "-c", "kill -QUIT $$; exit 3")
        assert (await intake.ended(2)).signal == signal.SIGQUIT


@needs_root
async def test_the_helper_hears_nothing_of_a_jobs_environment(broker, reachable):  # noqa: F811
    """Neither does anything that has rights which the job has not: a library to be loaded is loaded by the job."""
    async with stage(broker, reachable, run_as=SUBMITTER) as intake:
        spy = reachable / "spy.py"
        spy.write_text(f"open('{reachable}/spied', 'w').close()")
        env = {"LD_PRELOAD": str(reachable / "no.so"), "PYTHONPATH": str(reachable), "PYTHONSTARTUP": str(spy)}
        env |= {"GCONV_PATH": str(reachable), "LD_AUDIT": str(reachable / "no.so"), "LOCPATH": str(reachable)}
        env |= {"PYTHONHOME": str(reachable), "LD_LIBRARY_PATH": str(reachable), "PYTHONINSPECT": "1"}
        script = f"echo $$ > {reachable}/open/pid; exec sleep 1000"
        (reachable / "open").mkdir()
        (reachable / "open").chmod(0o777)
        await intake.order(starts=[of(start_of(1, "sh", "-c", script, env=env), "daemon")])
        pid = int(await appears(reachable / "open/pid"))
        helper = parent_of(pid)
        assert Path(f"/proc/{helper}/environ").read_bytes() == b""
        assert Path(f"/proc/{helper}/status").read_text().split("Uid:")[1].split()[:4] == ["0"] * 4
        loaded = Path(f"/proc/{helper}/maps").read_text() + Path(f"/proc/{parent_of(helper)}/maps").read_text()
        assert str(reachable) not in loaded
        assert b"LD_PRELOAD" in Path(f"/proc/{pid}/environ").read_bytes()
    assert not (reachable / "spied").exists()


@needs_root
async def test_nobody_can_lay_a_link_where_anothers_output_will_be(broker, reachable):  # noqa: F811
    """The default output of each user is in a directory that others may not write to."""
    async with stage(broker, reachable, run_as=SUBMITTER) as intake:
        await intake.order(starts=[of(start_of(1, "true"), "daemon")])
        first = Path((await intake.ended(1)).stdout)
        assert first.parent.name == "daemon"
        assert (first.parent.stat().st_mode & 0o777, first.parent.owner()) == (0o700, "daemon")
        lay = f"ln -s /etc/passwd {first.parent}/job-1003.out || ln -s /etc/passwd {first.parent.parent}/x"
        await intake.order(starts=[of(start_of(2, "sh", "-c", lay), "nobody")])
        assert (await intake.ended(2)).exit_status != 0


async def test_a_pipe_without_a_reader_holds_up_nobody(broker, tmp_path):
    """As input it opens at once; the job, and no one else, waits for a writer when it reads."""
    os.mkfifo(tmp_path / "fifo")
    async with stage(broker, tmp_path) as intake:
        for number in range(1, 20):
            await intake.start(number, "cat", stdin=f"{tmp_path}/fifo")
        await intake.start(20, "true")
        assert (await intake.ended(20)).exit_status == 0
        await asyncio.gather(*(intake.ended(number) for number in range(1, 20)))


def connected_as(uid: int, path: Path) -> socket.socket:
    """A connection that a process of this user has made."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(path))
            socket.send_fds(there, [b"x"], [connection.fileno()])
        finally:
            os._exit(0)
    with here, there:
        os.waitpid(child, 0)
        here.settimeout(10)
        _, [handle], _, _ = socket.recv_fds(here, 1, 1)
        return socket.socket(fileno=handle)


@needs_root
async def test_a_keeper_attends_processes_of_its_own_user_only(broker, reachable):  # noqa: F811
    """Not even where somebody has opened the socket to others. Its agent stays connected."""
    async with stage(broker, reachable, run_as=SUBMITTER) as intake:
        await intake.order(starts=[of(start_of(1, "sleep", "1000"), "daemon")])
        await intake.started(1)
        keepers = reachable / "state" / "keeper.socket"
        assert stat.S_IMODE(keepers.stat().st_mode) == 0o600
        for path in (keepers.parent, keepers):
            path.chmod(0o777)
        with connected_as(1, keepers) as connection:
            connection.settimeout(60)
            assert await asyncio.to_thread(connection.recv, 100) == b""
        keepers.parent.chmod(0o755)
        assert "user 1 connected" in (reachable / "state" / "keeper.log").read_text()
        assert not intake.of(1, "ended")
        await intake.order(cancels=[1])
        assert (await intake.ended(1)).cause == "cancel"


WAYS = {
    "a link": "{users}/link",
    "a link to a directory": "{users}/up/secret",
    "two dots": "{users}/../private/secret",
    "the root of the keeper": "/proc/{keeper}/root{private}/secret",
    "the directory of the keeper": "/proc/{keeper}/cwd{private}/secret",
    "the files of the helper": "/proc/{helper}/fd/0",
    "the environment of the keeper": "/proc/{keeper}/environ",
    "the memory of the helper": "/proc/{helper}/mem",
    "the state of the agent": "{state}/keeper.socket",
    "the lock of the agent": "{state}/lock",
}


@needs_root
@pytest.mark.parametrize("field", ["stdin", "stdout"])
async def test_no_way_to_a_file_leads_past_the_rights_of_the_jobs_user(broker, reachable, field):  # noqa: F811
    private, users = reachable / "private", reachable / "users"
    private.mkdir(mode=0o700)
    (private / "secret").write_text("secret")
    users.mkdir()
    users.chmod(0o777)
    (users / "link").symlink_to(private / "secret")
    (users / "up").symlink_to(private)
    async with stage(broker, reachable, run_as=SUBMITTER) as intake:
        await intake.order(starts=[of(start_of(1, "sh", "-c", f"echo $$ > {users}/pid; exec sleep 1000"), "daemon")])
        helper = parent_of(int(await appears(users / "pid")))
        places = {"users": users, "private": private, "state": reachable / "state", "helper": helper,
                  "keeper": parent_of(helper)}  # fmt: skip
        for number, way in enumerate(WAYS.values(), start=2):
            await intake.order(starts=[of(start_of(number, "cat", **{field: way.format(**places)}), "daemon")])
        ends = {way: await intake.ended(number) for number, way in enumerate(WAYS, start=2)}
        assert {way: end.cause for way, end in ends.items() if end.cause != "start_failed"} == {}
        assert not intake.of(1, "ended")
    assert (private / "secret").read_text() == "secret"
