"""Services as processes: their logs, their signals, their parent."""

import argparse
import re
import signal
import subprocess
import sys

import pytest
from watch import PATIENCE_S, gone_within

from rankd.cli.main import main
from rankd.cli.services.service_option import pairs, weight, whole_value

SERVE = """
import asyncio, logging, sys
from rankd.cli.services.process import serve

async def run(stop):
    logging.getLogger("rankd.sample").info("ready")
    print("ready", flush=True)
    await stop.wait()
    print("drained", flush=True)

sys.exit(serve(run, "sample", parent_pid=int(sys.argv[1]) if len(sys.argv) > 1 else None))
"""

HANGUP = """
import asyncio, sys
from rankd.cli.services.process import serve

hangup = asyncio.Event()

async def run(stop):
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    stopping, hanging = asyncio.create_task(stop.wait()), asyncio.create_task(hangup.wait())
    await asyncio.wait((stopping, hanging), return_when=asyncio.FIRST_COMPLETED)
    asked = hanging.done()
    hanging.cancel()
    stopping.cancel()
    sys.exit(5 if asked else 6)

serve(run, "sample", hangup=hangup)
"""

ON_A_TERMINAL = """
import os, pty, sys

child, terminal = pty.fork()
if not child:
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
assert os.read(terminal, 7) == b"ready\\r\\n"
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def start(*arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_service_drain_and_ends_with_0(number):
    with start() as process:
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, "drained\n")
    lines = err.splitlines()
    assert re.fullmatch(r"[0-9-]{10}T[0-9:]{8}\.[0-9]{3}Z INFO rankd\.sample ready", lines[0])
    assert lines[1].endswith(f"INFO rankd.sample {signal.Signals(number).name}: stopping")


def test_sighup_asks_a_service_that_reloads_and_is_nothing_to_others():
    with subprocess.Popen([sys.executable, "-c", HANGUP], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(PATIENCE_S) == 5
    with start() as process:
        process.send_signal(signal.SIGHUP)
        assert "nothing to do here" in [process.stderr.readline() for _ in range(2)][1]
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=PATIENCE_S)[0] == "drained\n"


def test_sighup_ends_a_service_whose_terminal_has_gone():
    done = subprocess.run([sys.executable, "-c", ON_A_TERMINAL, HANGUP], check=False, timeout=PATIENCE_S)
    assert done.returncode == 6


def test_a_service_whose_parent_has_gone_stops_by_itself():
    """The parent is a shell that starts the service with its own number, waits for it to be ready, and is killed."""
    command = [sys.executable, "-c", SERVE]
    shell = subprocess.Popen(
        ["sh", "-c", '"$0" "$1" "$2" $$ & echo $!; wait', *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    service = int(shell.stdout.readline())
    assert shell.stdout.readline() == "ready\n"
    shell.kill()
    shell.wait(PATIENCE_S)
    assert shell.stdout.read() == "drained\n", "read to its end: the service has closed it"
    assert "the parent process" in shell.stderr.read()
    shell.stdout.close()
    shell.stderr.close()
    assert gone_within(service, PATIENCE_S)


@pytest.mark.parametrize("name", ["intake", "prioritizer", "scheduler"])
def test_a_service_without_a_broker_is_a_usage_error(name, monkeypatch, capsys):
    for variable in ("RANKD_NATS", "RANKD_DB"):
        monkeypatch.delenv(variable, raising=False)
    assert main([name, "--db", "x"]) == 2
    assert capsys.readouterr().err == "rankd: --nats (or $RANKD_NATS) is needed\n"
    assert main([name, "--nats", "nats://127.0.0.1:1"]) == 2
    assert "--db" in capsys.readouterr().err


def test_a_weight_that_is_no_number_is_a_usage_error(capsys):
    assert main(["prioritizer", "--weight", "age=much"]) == 2
    assert "'much' is not a number; write age=2000" in capsys.readouterr().err


def test_weights_and_pairs():
    assert weight("age=2000") == ("age", 2000.0)
    assert pairs("vcore=8,memory=16Gi") == {"vcore": "8", "memory": "16Gi"}


def test_nobody_to_ask_is_3(capsys):
    assert main(["health", "intake", "--nats", "nats://127.0.0.1:1", "--timeout", "0.2"]) == 3
    assert capsys.readouterr().err.startswith("rankd: no NATS server at nats://127.0.0.1:1")
    assert main(["cancel", "1", "--nats", "nats://127.0.0.1:1"]) == 3
    capsys.readouterr()
    assert main(["submit", "--retry-for", "0.2", "--nats", "nats://127.0.0.1:1", "--", "true"]) == 3
    assert "no NATS server" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["age=nan", "age=inf", "age=-inf", "age=1e400"])
def test_a_weight_is_finite(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not finite; write a finite one, such as age=2000"):
        weight(text)


def test_a_whole_value_fits_into_the_database():
    assert whole_value("high=-100") == ("high", -100)
    with pytest.raises(argparse.ArgumentTypeError, match="is too large; write at most 9007199254740992"):
        whole_value("high=99999999999999999999")
