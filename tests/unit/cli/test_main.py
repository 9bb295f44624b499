import fcntl
import io
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from unit.store.sample_database import make_database
from watch import PATIENCE_S

from rankd import __version__
from rankd.cli import main as command_line
from rankd.cli.common.counterpart import COUNTERPARTS
from rankd.cli.main import COMMANDS, exit_status, main
from rankd.core.errors import ConfigurationError, InvalidTransition, Problem, Refused, Unavailable

SLOW = {"numpy", "nats", "sqlalchemy", "asyncio", "uvloop", "alembic", "yaml", "rich"}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return make_database(tmp_path_factory.mktemp("main") / "rankd.db")


def rankd(*arguments, **keywords):
    return subprocess.run(
        [sys.executable, "-m", "rankd", *map(str, arguments)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, **keywords,
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["queue"],
        ["queue", "--json"],
        ["prio", "-l"],
        ["show", "1"],
        ["history", "1"],
        ["nodes"],
        ["share"],
        ["queues"],
        ["db", "sql", "SELECT 1"],
        ["submit", "--print-request", "--", "true"],
        ["intake", "--help"],
    ],
)
def test_commands_that_only_look_import_nothing_slow(database, arguments):
    environment = os.environ | {"RANKD_DB": str(database)}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rankd", *arguments],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment,
    )  # fmt: skip
    imported = {
        line.rpartition("|")[2].strip().partition(".")[0]
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "argparse" in imported, "the trace of imports was read"
    assert not imported & SLOW


def test_help_names_every_command_with_a_line(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, command in COMMANDS.items():
        assert f"  {name:<12} {command.help}" in lines


def test_no_command_is_a_usage_error(capsys):
    assert main([]) == 2
    assert "usage: rankd COMMAND" in capsys.readouterr().out


def test_wrong_usage_of_run_has_a_status_of_its_own_since_2_may_be_the_commands(capsys):
    assert main(["run", "--nonsense", "--", "true"]) == 125
    assert main(["run"]) == 125
    assert "no command" in capsys.readouterr().err


def test_a_time_that_is_subtracted_may_be_a_word_of_its_own():
    for words in (["-t", "-5m"], ["--time", "-5m"], ["--time=-5m"]):
        joined = command_line._with_dashes(["update", "17", *words], *command_line.DASHED["update"])
        assert command_line._parser("update").parse_args(joined).time == "-5m"
    assert command_line._with_dashes(["update", "-t", "--name", "x"], *command_line.DASHED["update"])[1] == "-t"


def test_a_signal_that_is_missing_is_not_mistaken_for_missing_jobs(capsys):
    assert main(["signal", "17"]) == 2
    said = "'17' was read as the signal, and no job is given; for job 17, write `rankd signal 17 USR1`"
    assert said in capsys.readouterr().err
    assert main(["signal", "sigusr1", "14"]) == 2
    assert "the signal comes last: `rankd signal JOB sigusr1`" in capsys.readouterr().err
    assert main(["signal", "x", "14"]) == 2
    assert "'x' is not a job id" in capsys.readouterr().err
    assert main(["signal", "TERM"]) == 2
    assert "which jobs?" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("-n", "-1"), ("--bytes", "1.5"), ("--attempt", "0"), ("-n", "\u0661")])
def test_a_wrong_number_of_logs_is_said_in_plain_words(option, value, capsys):
    assert main(["logs", f"{option}={value}" if option != "-n" else f"-n{value}", "17"]) == 2
    assert "is not a number; write a whole number of at least" in capsys.readouterr().err


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rankd {__version__}\n"


def test_an_unknown_command_names_the_nearest(capsys):
    assert main(["quue"]) == 2
    assert "unknown command 'quue'; did you mean queue" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (["sbatch", "job.sh"], "`rankd submit`"),
        (["srun", "hostname"], "`rankd run -- COMMAND`"),
        (["squeue", "-u", "me"], "`rankd queue`"),
        (["scancel", "17"], "`rankd cancel`"),
        (["sinfo"], "`rankd nodes`"),
        (["sacct"], "`rankd acct`"),
        (["sprio"], "`rankd prio`"),
        (["sshare"], "`rankd share`"),
        (["sdiag"], "`rankd diag`"),
        (["scontrol"], "`rankd hold`"),
        (["scontrol", "hold", "17"], "`rankd hold JOB`"),
        (["scontrol", "release", "17"], "`rankd release JOB`"),
        (["scontrol", "show", "job", "17"], "`rankd show JOB`"),
        (["scontrol", "update", "JobId=17"], "`rankd update JOB`"),
        (["scontrol", "requeue", "17"], "`rankd cancel JOB`"),
        (["scontrol", "reconfigure"], "`rankd reload --admin`"),
        (["sacctmgr", "show"], "accounts.yaml"),
        (["salloc"], "`rankd run --pty -- bash`"),
        (["sreport"], "`rankd acct`"),
        (["flux", "jobs"], "`rankd queue`"),
        (["kubectl", "drain", "n1"], "`rankd node drain NODE`"),
    ],
)
def test_slurms_commands_are_answered_with_ours(words, ours, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"rankd: '{words[0]}' is another program's command; ")
    assert main(words) == 2
    assert ours in capsys.readouterr().err


def test_every_counterpart_exists():
    named = {word.strip("`,;. ") for ours in COUNTERPARTS.values() for word in re.findall(r"`rankd (\w+)", ours)}
    assert named <= set(COMMANDS)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("up", "demo")])
def test_every_command_has_help(name, capsys):
    assert main([name, "--help"]) == 0
    assert f"usage: rankd {name}" in capsys.readouterr().out


def test_a_wrong_flag_is_a_usage_error(capsys):
    assert main(["queue", "--nonsense"]) == 2
    assert "--nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["queue", "submit", "class list", "config history", "up", "diag"])
def test_a_wrong_flag_names_its_command_in_one_line(command, capsys):
    assert main([*command.split(), "--nonsense"]) == 2
    said = f"rankd {command}: there is no option --nonsense; `rankd {command} --help` shows the options\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["submit", "--nam", "x"], "there is no option --nam (did you mean --name?)"),
        (["submit", "--exclusiv=1"], "there is no option --exclusiv (did you mean --exclusive?)"),
        (["queue", "--juser", "x"], "there is no option --juser (did you mean --user?)"),
        (["list", "-l"], "there is no option -l"),
        (["diag", "now"], "takes no argument 'now'"),
        (["why"], "JOB is missing"),
        (["up", "--simulate", "x"], "argument --simulate: 'x' is not a whole number"),
        (["queue", "-i", "0"], "argument -i/--iterate: '0' is not a time between two looks"),
        (["queue", "-i", "nan"], "argument -i/--iterate: 'nan' is not a time between two looks"),
        (["up", "--resources", "cpu=3"], "argument --resources: the resource 'cpu' is called vcore; write vcore=3"),
    ],
)
def test_a_usage_error_says_what_to_write(words, said, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"rankd {words[0]}: {said}")


@pytest.mark.parametrize("command", ["auth", "class", "config", "db", "deadletter", "import", "node"])
def test_the_help_of_a_command_describes_its_verbs(command, capsys):
    assert main([command, "--help"]) == 0
    verbs = re.findall(r"^    (\w+)(.*)", capsys.readouterr().out, re.MULTILINE)
    assert verbs
    assert all(text.strip() for _, text in verbs if len(_) < 20), verbs


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Refused("unknown_job", "there is no job 1", status=404), 1),
        (InvalidTransition(1, "running", "hold"), 1),
        (Refused("usage", "no command"), 2),
        (Refused("unknown_field", "unknown field 'comand'"), 2),
        (Refused("bad_signal", "'SIGFOO' is not a signal"), 2),
        (Refused("bad_trace", "line 3: 'x' is not a number"), 2),
        (Refused("bad_nodes", "the nodes can't be read"), 2),
        (ConfigurationError([Problem(path="x", message="bad")]), 2),
        (Unavailable("not_running", "nothing runs"), 3),
    ],
)
def test_exit_statuses_are_by_kind_of_error(error, status):
    assert exit_status(error) == status


def test_an_error_is_one_line_on_standard_error(database, capsys):
    assert main(["show", "99", "--db", str(database)]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "rankd: there is no job 99\n")


def test_looking_where_nothing_is_says_what_to_do(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RANKD_DIR", "RANKD_NATS", "RANKD_DB"):
        monkeypatch.delenv(name, raising=False)
    assert main(["queue"]) == 3
    assert "`rankd up`" in capsys.readouterr().err


def test_errors_of_several_tasks_are_a_line_each(monkeypatch, capsys):
    def fail(_argv):  # of two tasks that fail at once, by the luck of their turns
        raise ExceptionGroup("tasks", [Refused("a", "one"), ExceptionGroup("inner", [Unavailable("b", "two")])])

    monkeypatch.setattr(command_line, "_run", fail)
    assert main(["queue"]) == 3
    assert capsys.readouterr().err == "rankd: one\nrankd: two\n"


def test_a_bug_keeps_its_traceback(monkeypatch):
    def fail(_argv):  # no real one is known
        raise ZeroDivisionError

    monkeypatch.setattr(command_line, "_run", fail)
    with pytest.raises(ZeroDivisionError):
        main(["queue"])


HEARS_CTRL_C = ["env", "--default-signal=INT"]
"""What a shell that is no terminal's starts with ``&`` ignores SIGINT, and these tests may be started like that."""

FULL_PIPE = """
import fcntl, os, signal, sys
from rankd.cli import main as command_line

def interrupted(_argv):
    os.write(1, bytes(fcntl.fcntl(1, fcntl.F_GETPIPE_SZ)))
    sys.stdout.write("this does not fit into the pipe any more")
    signal.raise_signal(signal.SIGINT)

command_line._run = interrupted
sys.exit(command_line.main([]))
"""


def printing_numbers(database):
    """A command that prints more than a pipe holds."""
    query = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 100000) SELECT x FROM n"
    return subprocess.Popen(
        [*HEARS_CTRL_C, sys.executable, "-m", "rankd", "db", "sql", query],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"RANKD_DB": str(database)},
    )  # fmt: skip


def waits_in_a_write(process):
    """Until the pipe is full and the process is blocked by that."""
    capacity = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ)
    kernel_says = Path(f"/proc/{process.pid}/syscall")
    deadline = time.monotonic() + PATIENCE_S
    while not (kernel_says.read_text().startswith("1 ") and waiting_in(process.stdout) > capacity // 2):
        assert time.monotonic() < deadline


def waiting_in(pipe):
    """How many bytes are there to be read."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"....")[:4])[0]


def test_ctrl_c_ends_with_130_and_no_word(database):
    """Also where nobody reads on: what is still to be written is given up, not waited for."""
    with printing_numbers(database) as process:
        assert process.stdout.readline()
        waits_in_a_write(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr.read() == b""


def test_ctrl_c_does_not_wait_for_a_reader_that_reads_no_more():
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(
        [*HEARS_CTRL_C, sys.executable, "-c", FULL_PIPE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered
    ) as process:
        try:
            assert process.wait(PATIENCE_S) == 130
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_a_reader_that_has_gone_is_no_error(database):
    with printing_numbers(database) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE_S) == 141


def test_the_module_is_the_program():
    done = rankd("--version")
    assert (done.returncode, done.stdout) == (0, f"rankd {__version__}\n")


def test_jobs_are_read_from_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"comand": ["true"]')))
    assert main(["submit", "--print-request", "--file", "-"]) == 2
    assert "rankd: -: " in capsys.readouterr().err


@pytest.mark.parametrize("number", ["-1", "x", "1.5", "²", "1" * 5000])
def test_a_wrong_number_of_simulated_nodes_is_refused(number, capsys):
    assert main(["up", f"--simulate={number}"]) == 2
    assert "is not a whole number from 0" in capsys.readouterr().err
