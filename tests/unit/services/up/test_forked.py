import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from watch import PATIENCE_S

from rankd.services.up.forked import Forked


@pytest.fixture
def spawned():
    """Starts a shell with this script; what has not ended at the end of the test is killed."""
    started = []

    def spawn(script: str) -> Forked:
        started.append(Forked(os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ)))
        return started[-1]

    yield spawn
    for process in started:
        process.send_signal(9)
        process.wait(PATIENCE_S)


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -15 $$", -15)])
def test_its_status_is_as_of_popen(spawned, script, status):
    process = spawned(script)
    assert process.wait(PATIENCE_S) == process.returncode == process.poll() == status
    assert subprocess.run(["sh", "-c", script], check=False).returncode == status


def test_a_wait_that_is_too_short_says_so_and_ends_nothing(spawned):
    process = spawned("exec sleep 3600")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)
    assert process.poll() is None
    process.terminate()
    assert process.wait(PATIENCE_S) == -15


def test_threads_wait_together_and_all_hear_of_its_end(spawned):
    process = spawned("sleep 0.1; exit 4")
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(process.wait, [PATIENCE_S] * 4)) == [4] * 4


def test_an_ended_process_is_sent_no_signal(spawned):
    process = spawned("exit 0")
    process.wait(PATIENCE_S)
    process.send_signal(9)
    process.terminate()
    assert process.returncode == 0


def test_where_ends_are_ignored_they_are_noticed_all_the_same():
    script = (
        "import os, signal\n"
        "from rankd.services.up.forked import Forked\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "print(Forked(os.posix_spawn('/bin/sh', ['sh', '-c', 'sleep 0.1'], {})).wait(300))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
