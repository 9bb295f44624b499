"""A small ``up`` of each test's own, with a real nursery: what is forked, and what becomes of it when others end."""

import errno
import json
import os
import subprocess
import sys

import pytest
from watch import PATIENCE_S, gone_within

BEGIN = """
import ctypes, json, os, signal, socket, sys
from pathlib import Path
from rankd.cli.run.nursery import begin
from rankd.plugin.interpreter import python_command
from rankd.services.up.nursery import FORK, Nursery, NurseryLost, Plan

def plan(*arguments, **variables):
    return Plan(arguments, variables, 0o027, signal.SIGKILL, os.getpid())

def fork(nursery, plan):
    with open("log", "ab") as log:
        return nursery.fork(plan, log.fileno())

def is_lost(nursery):
    try:
        fork(nursery, plan("waits"))
    except NurseryLost:
        return True

kept = open(__file__)  # a file of `up`
nursery = begin(("wave",))
if isinstance(nursery, list):
    if nursery == ["waits"]:
        Path("waiting").touch()
        signal.pause()
    death = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(death))
    print(json.dumps({
        "arguments": nursery, "parent": os.getppid(), "group": os.getpgid(0) == os.getpid(), "death": death.value,
        "umask": os.umask(0), "environment": dict(os.environ), "files": sorted(map(int, os.listdir("/proc/self/fd"))),
        "command": Path("/proc/self/cmdline").read_text(), "wave": "wave" in sys.modules, "path": sys.path,
        "stdin": os.readlink("/proc/self/fd/0"), "signals": [signal.getsignal(2).__name__, signal.getsignal(15)],
    }))
    sys.exit(7)
"""


@pytest.fixture
def small_up(tmp_path):
    """Starts a program that begins a nursery and goes on as given."""
    started = []

    def start(rest: str, **variables: str) -> subprocess.Popen[str]:
        file = tmp_path / "up.py"
        file.write_text(BEGIN + rest)
        started.append(
            subprocess.Popen(
                [sys.executable, str(file)], cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=os.environ | variables,
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def said(process: subprocess.Popen[str]) -> list:
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    return json.loads(output)


def test_what_is_forked_is_as_a_new_interpreter_with_everything_imported(small_up, tmp_path):
    process = small_up("""
with nursery:
    children = [fork(nursery, plan("intake", "--db", "ä b", A="1")) for _ in range(2)]
    print(json.dumps([child.wait() for child in children]))
""", B="2")  # fmt: skip
    assert said(process) == [7, 7]
    for line in (tmp_path / "log").read_text().splitlines():
        child = json.loads(line)
        assert child["parent"] == process.pid
        assert child["arguments"] == ["intake", "--db", "ä b"]
        assert child["environment"] == {"A": "1"}
        assert child["files"] == [0, 1, 2, 3]  # the last one is that of the listing
        assert (child["umask"], child["death"], child["group"]) == (0o027, 9, True)
        assert child["wave"]
        assert str(tmp_path) not in child["path"]
        assert child["stdin"] == os.devnull
        assert child["signals"] == ["default_int_handler", 0]
        assert child["command"].split("\0")[1:] in (
            ["-P", "-m", "rankd", "intake", "--db", "ä b", ""],
            [str(tmp_path / "up.py"), ""],  # a kernel that lets no process change it
        )


def test_a_process_that_is_killed_says_so_and_the_next_is_forked(small_up):
    process = small_up("""
with nursery:
    child = fork(nursery, plan("waits"))
    child.send_signal(signal.SIGKILL)
    print(json.dumps([child.wait(), fork(nursery, plan("again")).wait()]))
""")
    assert said(process) == [-9, 7]


def test_the_kernel_ends_everything_when_up_is_killed(small_up):
    process = small_up("""
child = fork(nursery, plan("waits"))
print(child.pid, nursery._process.pid, flush=True)
signal.pause()
""")
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 2
    process.kill()
    assert all(gone_within(pid, PATIENCE_S) for pid in pids)


@pytest.mark.parametrize("number", ["SIGKILL", "SIGTERM"])
def test_the_end_of_the_nursery_harms_nothing_that_it_forked(small_up, number):
    process = small_up(f"""
child = fork(nursery, plan("waits"))
os.kill(nursery._process.pid, signal.{number})
nursery._process.wait()
print(json.dumps([is_lost(nursery), is_lost(nursery), child.poll(), child.terminate(), child.wait()]))
""")
    assert said(process) == [True, True, None, None, -15]


def test_a_nursery_that_does_not_answer_is_ended(small_up, tmp_path):
    process = small_up("""
os.kill(nursery._process.pid, signal.SIGSTOP)
nursery._answer_s = 0.1
print(json.dumps([is_lost(nursery), nursery._process.poll()]))
""")
    assert said(process) == [True, -9]
    assert not (tmp_path / "waiting").exists()


def test_a_process_whose_plan_never_comes_does_nothing(small_up, tmp_path):
    process = small_up("""
with nursery:
    ours, theirs = socket.socketpair()
    socket.send_fds(nursery._connection, [FORK], [theirs.fileno(), 1])
    theirs.close()
    pid = int.from_bytes(ours.recv(8), "little")
    descriptor = os.pidfd_open(pid)
    ours.close()
    import select
    select.select([descriptor], [], [])
    print(json.dumps([fork(nursery, plan("next")).wait()]))
""")
    assert said(process) == [7]
    assert len((tmp_path / "log").read_text().splitlines()) == 1


LIMITED = """
import os, resource
user = os.geteuid() or 12_345  # root may always have more
os.setresuid(user, user, user)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
"""


def test_where_no_more_processes_are_possible_the_reason_is_raised_and_the_nursery_stays(small_up, tmp_path):
    (tmp_path / "limited.py").write_text(LIMITED)
    process = small_up("""
sys.path.append(os.path.dirname(__file__) + "/.")
other = begin(("limited",))
try:
    fork(other, plan("waits"))
except OSError as error:
    print(json.dumps([error.errno, other._process.poll()]))
""")
    assert said(process) == [errno.EAGAIN, None]


def test_a_module_that_cannot_be_imported_ends_the_nursery_and_is_named(small_up):
    process = small_up("""
other = begin(("no_such_module",))
print(json.dumps([is_lost(other), fork(nursery, plan("of the first one")).wait()]))
""")
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert json.loads(output) == [True, 7]
    assert "No module named 'no_such_module'" in errors


def test_where_the_current_directory_is_a_place_of_modules_there_is_no_nursery(small_up):
    process = small_up("print(json.dumps([nursery]))", PYTHONPATH="/nowhere:.")
    assert said(process) == [None]
