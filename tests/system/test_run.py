"""``rankd run``, ``attach`` and ``shell`` as users meet them: real processes, a real broker, a real terminal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import termios
import time

import pytest
from system.client import connected
from system.conftest import RANKD
from system.test_two_agents import another_agent
from watch import PATIENCE_S, comes

from rankd.bus.connection import Bus
from rankd.client.asker import Asker
from rankd.client.attachment import Attachment
from rankd.core.errors import Refused, Unavailable
from rankd.identity.credentials import source_of
from rankd.wire.codec import encode
from rankd.wire.session import (
    OFFSET,
    STREAM,
    Alive,
    InputEnd,
    JobAttach,
    JobLog,
    Leave,
    SendSignal,
    SessionOpened,
    Step,
)
from rankd.wire.subject import session_grant, session_in, session_out

ALICE, BOB = ("--as", "alice"), ("--as", "bob")


@pytest.fixture(scope="module")
def site(shared_machine):
    shared_machine.start()
    return shared_machine


def environment(site) -> dict[str, str]:
    return os.environ | {"RANKD_DIR": str(site.directory), "TERM": "xterm"}


def ran(site, *words, given=b"", status=0):
    done = subprocess.run(
        [*RANKD, *words], input=given, capture_output=True, check=False, env=environment(site), timeout=PATIENCE_S
    )
    assert done.returncode == status, done
    return done


def started(site, *words, **more):
    return subprocess.Popen([*RANKD, *words], env=environment(site), **more)


def number_of(site, name: str, state: str = "running") -> int:
    """The job of this name, once it is in this state."""
    found = comes(lambda: site.rows("SELECT id FROM job WHERE name = ? AND state = ?", name, state))
    return found[0]["id"]


class Screen:
    """A command in a terminal of its own."""

    def __init__(self, site, *words) -> None:
        self.master, self.terminal = pty.openpty()
        self.before = termios.tcgetattr(self.terminal)
        self.seen = b""
        self.process = started(
            site, *words, stdin=self.terminal, stdout=self.terminal, stderr=self.terminal,
            preexec_fn=lambda: (os.setsid(), os.login_tty(0) if hasattr(os, "login_tty") else None),
        )  # fmt: skip

    def until(self, text: bytes) -> bytes:
        """Read until it shows this; returns what it has shown since the last time."""
        until = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            assert time.monotonic() < until, self.seen
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65_536)
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def until_stopped(self) -> None:
        """Wait until the command has been stopped by a signal."""
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self.terminal) == self.before

    def ended(self) -> int:
        until = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < until, self.seen
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65_536)
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.terminal)


@pytest.fixture
def screen(site):
    with contextlib.ExitStack() as stack:

        def start(*words):
            made = Screen(site, *words)
            stack.callback(made.close)
            return made

        yield start


def test_input_output_errors_and_status_pass_bit_for_bit(site):
    content = os.urandom(1_500_000)
    assert ran(site, "run", "--", "cat", given=content).stdout == content
    done = ran(site, "run", "--", "sh", "-c", "cat >&2; echo out; exit 7", given=b"in\n", status=7)
    assert (done.stdout, done.stderr.endswith(b"in\n")) == (b"out\n", True)
    assert ran(site, "run", "--no-stdin", "--", "sh", "-c", "cat; kill -KILL $$", given=b"x", status=137).stdout == b""


def test_what_is_not_the_commands_fault_has_statuses_of_its_own(site):
    timed_out = ran(site, "run", "-t", "1s", "--", "sleep", "1000", status=124)
    assert timed_out.stderr.endswith(b" has reached its time limit\n")
    assert b"no command" in ran(site, "run", status=125).stderr
    assert b"no option --nonsense" in ran(site, "run", "--nonsense", "--", "true", status=125).stderr
    assert b"nowhere" in ran(site, "run", "-q", "nowhere", "--", "true", status=125).stderr
    assert b"'no-such-command' not found" in ran(site, "run", "--", "no-such-command", status=127).stderr
    waiting = started(site, "run", "-J", "waits", "-H", "--", "true", stderr=subprocess.PIPE)
    job = number_of(site, "waits", "pending")
    assert b"job %d: " % job in waiting.stderr.readline()
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(PATIENCE_S) == 130
    number_of(site, "waits", "cancelled")
    waiting.stderr.close()


def test_an_interrupt_reaches_the_job_and_the_end_of_the_client_cancels_it(site):
    script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done"
    client = started(site, "run", "--", "sh", "-c", script, stdout=subprocess.PIPE)
    assert client.stdout.readline() == b"ready\n"
    client.send_signal(signal.SIGINT)
    assert client.stdout.read() == b"caught\n"
    assert client.wait(PATIENCE_S) == 9
    client.stdout.close()
    ended = started(site, "run", "-J", "ends", "--", "sleep", "1000")
    number_of(site, "ends")
    ended.send_signal(signal.SIGTERM)
    assert ended.wait(PATIENCE_S) == 125
    number_of(site, "ends", "cancelled")


def test_a_terminal_behaves_and_is_as_before_when_the_job_has_ended(screen):
    script = "stty size; trap 'echo int' INT; until [ -n \"$x\" ]; do read x; done; echo got $x; exit 5"
    window = screen("run", "--pty", "--", "sh", "-c", script)
    window.until(b"24 80")
    assert not window.is_as_before()
    window.type(b"\x03")
    window.until(b"int")
    window.type(b"hello\r")
    window.until(b"got hello")
    assert window.ended() == 5
    assert window.is_as_before()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_is_as_before_when_the_client_is_ended(screen, number):
    window = screen("run", "--pty", "--", "sh", "-c", "echo ready; exec sleep 1000")
    window.until(b"ready")
    assert not window.is_as_before()
    window.process.send_signal(number)
    assert window.ended() == 125
    assert window.is_as_before()


def test_the_window_is_followed_and_ctrl_z_is_a_key(screen):
    """The job hears both; the client itself stops only by a signal from elsewhere, with the terminal as it was."""
    script = "trap 'stty size' WINCH; trap 'echo stop' TSTP; echo ready; while :; do sleep 0.1; done"
    window = screen("run", "--pty", "--", "sh", "-c", script)
    window.until(b"ready")
    termios.tcsetwinsize(window.terminal, (31, 99))
    window.until(b"31 99")
    window.type(b"\x1a")
    window.until(b"stop")
    window.process.send_signal(signal.SIGTSTP)
    window.until_stopped()
    assert window.is_as_before()
    window.process.send_signal(signal.SIGCONT)
    comes(lambda: not window.is_as_before())  # else the key would stop the client, as it does at a shell
    window.type(b"\x1a")
    window.until(b"stop")
    assert not window.is_as_before()
    window.type(b"\x03")
    assert window.ended() == 130
    assert window.is_as_before()


def test_an_editor_works_in_the_terminal(screen, tmp_path):
    editor = next(filter(None, map(shutil.which, ("vim", "vim.tiny"))), None)
    if editor is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no vim is installed here")
    window = screen("run", "--pty", "-D", str(tmp_path), "--", editor, "-u", "NONE", "-n", "text")  # fits into a line
    window.until(b"~")
    window.type(b"ifirst\rlast\x1b:1d\rp:wq\r")
    assert window.ended() == 0
    assert window.is_as_before()
    assert (tmp_path / "text").read_text() == "last\nfirst\n"


def test_a_terminal_is_as_before_when_the_connection_has_died(screen, site):
    window = screen("run", "--pty", "-J", "cut", "--", "sh", "-c", "echo ready; exec sleep 1000")
    window.until(b"ready")
    broker = site.up["pids"]["nats"]
    os.kill(broker, signal.SIGSTOP)
    try:
        window.type(b"\x03\x03\x03")
        assert window.ended() == 125
        assert window.is_as_before()
    finally:
        os.kill(broker, signal.SIGCONT)
    site.rankd("cancel", "--name", "cut")


def test_three_interrupts_within_a_second_cancel(screen):
    window = screen("run", "--pty", "--", "sh", "-c", "trap '' INT; echo ready; while :; do sleep 0.1; done")
    window.until(b"ready")
    window.type(b"\x03\x03\x03")
    assert window.ended() == 125
    assert window.is_as_before()


def test_a_job_that_may_runs_on_and_is_joined_again_with_its_last_output(site):
    script = "echo begun; read x; echo first $x; read y; echo got $y; exit 6"
    client = started(site, "run", "-J", "stays", "--detach-ok", "--", "sh", "-c", script, stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE)  # fmt: skip
    assert client.stdout.readline() == b"begun\n"
    client.stdin.write(b"a long line\n")
    client.stdin.flush()
    assert client.stdout.readline() == b"first a long line\n"
    client.kill()
    client.communicate()
    job = number_of(site, "stays")
    shown = ran(site, "attach", str(job), given=b"hello\n", status=6).stdout
    assert shown == b"begun\nfirst a long line\ngot hello\n"


WITHOUT_RELAY = """
import glob, os, pathlib, time
os.write(1, b"begun\\n")
while not os.path.exists("{go}"): time.sleep(0.05)
os.write(1, bytes(900_000)), os.write(2, b"error\\n")
mine = os.readlink("/proc/self/fd/1")
while os.path.getsize("{file}") < 900_006: time.sleep(0.05)
for path in glob.glob("/proc/[1-9]*/fd/*"):
    try:
        if os.readlink(path) == mine and "/%d/" % os.getpid() not in path: os.kill(int(path.split("/")[2]), 9)
    except OSError: pass
pathlib.Path("{go}").unlink()
os._exit(3)
"""


def test_what_a_session_does_not_have_any_more_comes_from_the_jobs_files(site, tmp_path):
    """The process that holds the streams is killed, while the agent stands still."""
    go, file = tmp_path / "go", tmp_path / "out"
    client = started(site, "run", "-o", str(file), "--", "python3", "-c", WITHOUT_RELAY.format(go=go, file=file),
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert client.stdout.readline() == b"begun\n"
    agent = site.up["pids"]["agent"]
    os.kill(agent, signal.SIGSTOP)
    try:
        go.touch()
        comes(lambda: not go.exists())
    finally:
        os.kill(agent, signal.SIGCONT)
    out, errors = client.communicate(timeout=PATIENCE_S)
    assert (out.count(b"\0"), len(out), client.returncode) == (900_000, 900_000, 3)
    assert errors.endswith(b"error\n")


def test_who_joins_a_job_without_a_terminal_can_interrupt_and_leave_it(site, screen):
    script = "echo begun; trap 'echo int >&2' INT; until [ -n \"$x\" ]; do read x; done; echo got $x; exit 6"
    client = started(site, "run", "-J", "left", "--detach-ok", "--", "sh", "-c", script, stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert client.stdout.readline() == b"begun\n"
    job = number_of(site, "left")
    client.send_signal(signal.SIGTERM)
    assert client.wait(PATIENCE_S) == 125  # its input has not ended before
    assert b"`rankd attach %d` joins it" % job in client.communicate()[1]
    window = screen("attach", str(job))
    window.until(b"begun")
    assert window.is_as_before(), "the terminal stays as it is, since the job has none"
    window.type(b"\x03")
    window.until(b"int")
    window.process.send_signal(signal.SIGTERM)
    assert window.ended() == 125
    assert number_of(site, "left") == job
    again = screen("attach", str(job))
    again.until(b"begun")
    again.type(b"hello\r")
    again.until(b"got hello")
    assert again.ended() == 6
    number_of(site, "left", "failed")
    assert b"job %d is failed" % job in ran(site, "attach", str(job), status=125).stderr
    batch = ran(site, "submit", "--parsable", "--", "sleep", "600").stdout.decode().strip()
    said = ran(site, "attach", batch, status=125).stderr.decode()
    assert f"can't be joined; `rankd logs -f {batch}` shows its output" in said
    ran(site, "cancel", batch)


def test_who_reads_no_more_leaves_the_job_and_ends_a_shell(site):
    """As with ``| head -1``."""
    lines = ("sh", "-c", "while :; do echo line; sleep 0.1; done")

    def read_one_line(*words):
        with started(site, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
            assert client.stdout.readline() == b"line\n"
            client.stdout.close()
            assert client.wait(PATIENCE_S) == 125
            return client.stderr.read()

    left = read_one_line("run", "-J", "unread", "--no-stdin", "--detach-ok", "--", *lines)
    job = str(number_of(site, "unread"))
    assert f"`rankd attach {job}` joins it".encode() in left
    assert f"`rankd attach {job}` joins it".encode() in read_one_line("attach", job)
    read_one_line("shell", job, "--", *lines)
    of_steps = "SELECT count(ended_at) AS ended, count(*) AS n FROM job_step WHERE job_id = ?"
    latest = time.monotonic() + PATIENCE_S
    while site.rows(of_steps, int(job)) != [{"ended": 1, "n": 1}]:
        assert time.monotonic() < latest
        time.sleep(0.05)
    assert str(number_of(site, "unread")) == job, "it still runs"
    ran(site, "cancel", job)


def test_a_shell_is_in_the_job_and_strangers_get_neither(site):
    client = started(site, "run", *ALICE, "-J", "theirs", "--", "sh", "-c", "echo begun; cat", stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE)  # fmt: skip
    assert client.stdout.readline() == b"begun\n"
    job = number_of(site, "theirs")
    shell = ran(
        site, "shell", *ALICE, str(job), "--", "sh", "-c", "echo $RANKD_JOB_ID; cat; exit 4", given=b"x", status=4
    )
    assert shell.stdout == b"%d\nx" % job
    [row] = site.rows("SELECT nodelist FROM job WHERE id = ?", job)
    behind = ("shell", *ALICE, str(job), "--node", row["nodelist"], "--", "echo", "--node")
    assert ran(site, *behind).stdout == b"--node\n", "options of rankd may also come after the job"
    assert b"ran on" in ran(site, "shell", *ALICE, str(job), "--node", "nowhere", "--", "true", status=125).stderr
    for words in (("shell", *BOB, str(job), "--", "id"), ("attach", *BOB, str(job))):
        assert b"belongs to" in ran(site, *words, status=125).stderr
    client.stdin.close()
    assert client.wait(PATIENCE_S) == 0
    client.stdout.close()
    said = ran(site, "shell", *ALICE, str(job), "--", "true", status=125).stderr
    assert b"nothing can be started in it" in said
    steps = site.rows("SELECT started_by, exit_status FROM job_step WHERE job_id = ?", job)
    assert [tuple(step.values()) for step in steps] == [("alice", 4), ("alice", 0)], "nothing of strangers"


async def test_nothing_that_another_user_sends_reaches_a_session(site):
    """Bob knows the id of alice's session, and all subjects."""
    client = started(
        site, "run", *ALICE, "-J", "watched", "--detach-ok", "--", "sh", "-c", "echo begun; cat", stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert client.stdout.readline() == b"begun\n"
    client.kill()
    client.communicate()
    job, alice, bob = number_of(site, "watched"), Asker("alice"), Asker("bob")
    creds = [source_of(site.credentials("user", name)) for name in ("alice", "bob")]
    out, heard = bytearray(), asyncio.Queue()

    def write(_stream, part, then):
        out.extend(part)
        then()

    url = site.up["nats"]
    async with Bus(url, "a", credentials=creds[0]) as hers, Bus(url, "b", credentials=creds[1]) as his:
        session = Attachment(hers, alice, JobAttach(id=job, stdin=True), write, ("stdout", "stderr"))
        node, id_ = (await session.open()).node, session._session
        outs = [session_out(user, node, id_) for user in ("alice", "bob")]
        for subject in (*outs, "_INBOX.>", "rankd.v1.session.>"):
            await his.client.subscribe(subject, cb=heard.put)
        said = [b"forged\n", *map(encode, (Alive(), SendSignal(number=15), InputEnd(offset=0), Leave()))]
        for user in ("alice", "bob"):
            for message in said:
                await his.client.publish(
                    session_in(user, node, id_), message, reply=session_out(user, node, id_), headers={OFFSET: "0"}
                )
        await his.client.publish(session_grant(node), b"{}")
        step = Step(command=["id"], begins=True)
        for wish in (JobAttach(id=job, session=id_), JobAttach(id=job, session=id_, step=step), JobLog(id=job)):
            verb = "job.log" if isinstance(wish, JobLog) else "job.attach"
            with pytest.raises(Refused) as refused:
                await his.request(bob.subject(verb), encode(wish), SessionOpened, timeout_s=PATIENCE_S)
            assert refused.value.code == "not_owner"
            with pytest.raises(Unavailable):  # nobody hears it in bob's account
                await his.request(alice.subject(verb), encode(wish), SessionOpened, timeout_s=1.0)
        await his.client.flush()
        await session.send_input(0, b"mine\n")
        await session.end_input(5)
        async with asyncio.timeout(PATIENCE_S):
            await session.over.wait()
        await his.client.flush()
    assert (bytes(out), session.exited.result().exit_status) == (b"begun\nmine\n", 0)
    got = [heard.get_nowait() for _ in range(heard.qsize())]
    assert [one for one in got if b"mine" in one.data or STREAM in (one.headers or {})] == [], "only his own come back"


def test_a_step_in_a_job_has_its_tasks_and_its_own_status(site):
    step = f"{RANKD[0]} run --dir {site.directory} --label -n 2"
    step += " -- sh -c 'echo $RANKD_JOB_ID $SLURM_PROCID $SLURM_LOCALID $RANKD_STEP_ID $SLURM_STEP_ID; exit 3'"
    done = ran(site, "run", "-J", "outer", "--slurm-env", "--", "sh", "-c", f"{step}; echo $?; {step}", status=3)
    job = number_of(site, "outer", "failed")
    said = sorted(done.stdout.decode().splitlines())
    assert said == [f"0: {job} 0 0 0 0", f"0: {job} 0 0 1 1", f"1: {job} 1 1 0 0", f"1: {job} 1 1 1 1", "3"]
    rows = site.rows("SELECT number, tasks, nodes, exit_status, cause FROM job_step WHERE job_id = ?", job)
    assert [tuple(row.values()) for row in rows] == [(0, 2, 1, 3, None), (1, 2, 1, 3, None)]
    shown = ran(site, "show", str(job)).stdout.decode()
    assert "2 steps\n" in shown
    assert shown.count(" exit 3 sh -c ") == 2
    lines = (
        ran(site, "acct", "--steps", "--noheader", "-o", "JobID,State,ExitCode", str(job)).stdout.decode().splitlines()
    )
    assert [line.split()[0] for line in lines] == [str(job), f"{job}.0", f"{job}.1"]
    assert {tuple(line.split()[1:]) for line in lines} == {("FAILED", "3:0")}


@pytest.mark.parametrize("numbers", [[signal.SIGTERM], [signal.SIGHUP], [signal.SIGINT] * 3])
def test_who_ends_the_client_of_a_shell_ends_what_it_has_started(site, numbers):
    job = site.rankd("submit", "--parsable", "--", "sleep", "1000").strip()
    comes(lambda: site.rows("SELECT 1 FROM job WHERE id = ? AND state = 'running'", job))
    script = "trap '' INT; echo ready; while :; do sleep 0.1; done"
    client = started(site, "shell", job, "--", "sh", "-c", script, stdout=subprocess.PIPE)
    assert client.stdout.readline() == b"ready\n"
    for number in numbers:
        client.send_signal(number)
        time.sleep(0.02)  # else equal ones become one
    assert client.wait(PATIENCE_S) == 125
    client.stdout.close()
    ended = "SELECT signal FROM job_step WHERE job_id = ? AND ended_at IS NOT NULL"
    first = signal.SIGHUP if numbers == [signal.SIGHUP] else signal.SIGTERM
    assert [step["signal"] for step in comes(lambda: site.rows(ended, job))] == [first]
    site.rankd("cancel", job)


def test_a_step_has_a_directory_of_its_own_and_refuses_what_it_cannot_do(site, tmp_path):
    steps = f"export RANKD_DIR={site.directory}; srun -D {tmp_path} --mem 1G pwd; srun -o file true; echo $?"
    steps += "; srun no-such-command; echo $?; srun /etc/passwd; echo $?"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "program").write_text("#!/bin/sh\necho $THREADS\npwd\n")
    (mine / "program").chmod(0o755)
    steps += f"; export THREADS=3 PATH={mine}:$PATH; cd {tmp_path}; srun program; cd mine; srun ./program"
    done = ran(site, "run", "--slurm-env", "--", "sh", "-c", steps)
    said = done.stdout.decode().splitlines()
    assert said[:4] == [str(tmp_path), "125", "127", "126"], "as a shell"
    assert said[4:] == ["3", str(tmp_path), "3", str(mine)], "in the environment and the directory of the script"
    assert b"command 'no-such-command' not found" in done.stderr
    assert b"--mem has no effect inside a job" in done.stderr
    assert b"--output can't be given for a step inside a job" in done.stderr


def test_a_script_for_slurm_finds_an_srun_that_starts_a_step(site, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(
        f"#!/bin/sh\n#SBATCH -J srun\nexport RANKD_DIR={site.directory}\nsrun -n 2 sh -c 'echo $SLURM_PROCID'\n"
    )
    output = tmp_path / "out"
    ran(site, "submit", "-o", str(output), "--wait", str(script))
    assert sorted(output.read_text().split()) == ["0", "1"]


def test_a_job_that_waits_says_its_rank_of_all_and_its_start_which_is_recorded(site):
    site.rankd("submit", "--exclusive", "-t", "10", "-J", "blocks", "--", "sleep", "600")
    number_of(site, "blocks")
    waiting = started(site, "run", "-J", "behind", "--", "true", stderr=subprocess.PIPE)
    wanted = re.compile(rb"job \d+: rank 1 of 1, .*; starts by \S+ at the latest\n")
    lines = []
    while not lines or not wanted.fullmatch(lines[-1]):
        line = waiting.stderr.readline()
        assert line, lines
        assert line not in lines[-1:], "a line is a change"
        lines.append(line)
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(PATIENCE_S) == 130
    waiting.stderr.close()
    site.rankd("cancel", "--name", "blocks")
    job = number_of(site, "behind", "cancelled")
    comes(lambda: site.rows("SELECT 1 FROM start_estimate WHERE job = ?", job))


async def test_a_command_on_two_nodes_its_steps_and_its_logs(site, tmp_path):
    async with connected(site.up["nats"], site.services) as client, another_agent(site, client, "second"):
        each = 'read x; echo "$RANKD_NODE_RANK got $x"; printf error >&2'
        done = ran(site, "run", "-N", "2", "-J", "both", "--label", "--", "sh", "-c", each, given=b"in\n")
        assert sorted(done.stdout.splitlines()) == [b"0: 0 got in", b"1: 1 got "]
        assert {b"0: error", b"1: error"} <= set(done.stderr.splitlines())
        ran(site, "run", "-N", "2", "--", "sh", "-c", "[ $RANKD_NODE_RANK = 0 ] || exit 5; sleep 1000", status=5)
        job = number_of(site, "both", "completed")
        [row] = site.rows("SELECT nodelist FROM job WHERE id = ?", job)
        first, second = sorted(row["nodelist"].split(","), key=lambda node: node == "second")
        logs = ran(site, "logs", str(job)).stdout.decode().splitlines()
        assert {line.split(": ")[0] for line in logs} == {first, second}
        assert f"{second}: {ran(site, 'logs', '--node', second, str(job)).stdout.decode()}".strip() in logs
        run = f"{RANKD[0]} run --dir {site.directory} --label"
        steps = f"{run} -- sh -c 'echo all $RANKD_NODE_RANK'; {run} -N 1 -- sh -c 'echo one $RANKD_NODE_RANK'"
        steps += f"; {run} -N 2 -n 4 -- sh -c 'echo $SLURM_PROCID on $RANKD_NODE_RANK; exit $SLURM_PROCID'; echo $?"
        other = f"while ! [ -e {tmp_path}/over ]; do sleep 0.1; done"
        script = f"if [ $RANKD_NODE_RANK = 0 ]; then {steps}; touch {tmp_path}/over; else {other}; fi"
        said = ran(site, "run", "-N", "2", "--", "sh", "-c", script).stdout.decode().splitlines()
    assert sorted(said[:3]) == ["0: all 0", "0: one 0", "1: all 1"]
    assert sorted(said[3:-1]) == ["0: 0 on 0", "1: 1 on 0", "2: 2 on 1", "3: 3 on 1"]
    assert said[-1] == "3", "the largest status of the tasks"
    query = "SELECT number, tasks, nodes, exit_status FROM job_step ORDER BY allocation_id DESC, number LIMIT 3"
    assert [tuple(row.values()) for row in site.rows(query)] == [(0, 2, 2, 0), (1, 1, 1, 0), (2, 4, 2, 3)]


def test_every_byte_passes_once_while_broker_agent_and_services_are_killed(machine):
    """Each is started again by ``rankd up``. The session goes on from the offsets of its relay."""
    machine.start()
    content = os.urandom(3_000_000)
    client = started(machine, "run", "-J", "killed", "--", "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    received = bytearray()

    def read(number: int) -> None:
        until = time.monotonic() + PATIENCE_S
        while len(received) < number:
            assert time.monotonic() < until, len(received)
            if select.select([client.stdout], [], [], 0.1)[0]:
                part = os.read(client.stdout.fileno(), 65_536)
                assert part, (len(received), client.wait())
                received.extend(part)

    def write(begin: int, end: int) -> None:
        for first in range(begin, end, 50_000):
            client.stdin.write(content[first : first + 50_000])
            client.stdin.flush()
            read(max(first - 100_000, 0))

    third = len(content) // 3
    write(0, third)
    for first, service in ((third, "agent"), (2 * third, "nats")):
        machine.kill(service)
        machine.kill("intake")
        write(first, first + third)
    client.stdin.close()
    read(len(content))
    assert client.stdout.read() == b""
    assert client.wait(PATIENCE_S) == 0
    client.stdout.close()
    assert bytes(received) == content
