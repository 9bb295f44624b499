"""Every looking command prints the same, whether it reads the database or asks over the bus."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from rankd.cli.main import COMMANDS
from rankd.store.schema.migration import shipped

JOB = {"command": ["true"], "name": "one-more", "queue": "root.default"}

LOOKING = {
    "queue": [[], ["-l"], ["--json"], ["-t", "all"], ["--start"], ["-o", "%i %u %T %Q"]],
    "list": [[], ["--json"], ["-t", "PD"]],
    "prio": [[], ["-l"], ["-w"], ["-n"], ["--json"]],
    "show": [["1"], ["1", "2", "--json"]],
    "why": [["2"], ["2", "--json"], ["2", "--gap"], ["2", "--gap", "--json"]],
    "history": [["1"], ["1", "--json"]],
    "nodes": [[], ["-N", "-l"], ["--json"]],
    "queues": [[], ["--json"]],
    "share": [["-a"], ["-a", "--json"]],
    "acct": [[], ["--json"]],
    "class": [["list"], ["list", "--json"], ["show", "system-node-critical"]],
    "dump": [["--admin"], ["--admin", "--json"]],
    "whatif": [["--weights", "age=77"], ["--weights", "age=77", "--json"], ["--submit", "job.json"],
               ["--config", "config", "--admin"]],
    "config": [["history", "--admin"], ["history", "--admin", "--json"], ["history", "--admin", "--diff", "2"]],
    "replay": [["--at", "2", "--admin"], ["--at", "2", "--admin", "--json"]],
    "reload": [["--dry-run", "--admin"], ["--dry-run", "--admin", "--json"]],
}  # fmt: skip
ONLY_OVER_THE_BUS = {"deadletter", "diag", "health", "logs", "streams", "watch", "when"}
"""They show what services, the intake and streams have; there is nothing of it in the file to compare with."""
ACTING = {"submit", "run", "attach", "shell", "cancel", "hold", "release", "signal", "update", "retry", "node"}
SERVICES = {"intake", "prioritizer", "scheduler", "forecaster", "agent", "gateway", "notifier", "web"}
NEITHER = {"up", "demo", "evaluate", "simulate", "import", "auth", "login", "db", "completion"} | SERVICES


def test_every_command_is_one_of_these():
    assert set(COMMANDS) == set(LOOKING) | ONLY_OVER_THE_BUS | ACTING | NEITHER


@pytest.mark.timeout(900)  # eighty commands, each a process of its own
def test_looking_commands_print_the_same_on_the_file_and_over_the_bus(machine, tmp_path):
    config = tmp_path / "config"
    shutil.copytree(shipped("config"), config)
    machine.start("--simulate", "1", "--no-local-agent", "--config", str(config))
    (tmp_path / "job.json").write_text(json.dumps(JOB))
    for user in ("alice", "bob"):
        machine.rankd("submit", "--as", user, "--hold", "--", "true")
        machine.rankd("submit", "--as", user, "-c", "64", "-t", "10", "--", "true")
    file = config / "rankd.toml"
    file.write_text(file.read_text().replace("period_s = ", "period_s = 600 # ", 1))
    machine.rankd("reload", "--admin")
    wrong = compared(machine, tmp_path)
    assert not wrong
    for words in (["deadletter", "list"], ["diag"], ["health", "intake"]):
        machine.rankd(*words, "--nats", machine.up["nats"])


COMPARING = """
import json, os, re, sys
import numpy, nats, uvloop
import rankd.bus.connection, rankd.cli.what_if.dump, rankd.cli.what_if.whatif
import rankd.config.evaluation, rankd.store.look.job_list, rankd.store.look.queue_list
from rankd.cli.main import main

by_file, by_bus, commands = json.load(sys.stdin)

def run(words, place):
    pid = os.fork()
    if not pid:
        os.environ.update(place)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv[1:] = words
        sys.exit(main())
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    text = open("out").read() or open("err").read()
    return status, re.sub(r'("waited_[a-z]+_s": )[0-9.e-]+', r"\\1 until now", text)  # it grows while they run

wrong = []
for words in commands:
    for _ in range(20):  # the cluster lives: it counts what is the same before and after
        before, asked = run(words, by_file), run(words, by_bus)
        if asked == before or before == run(words, by_file):
            break
    if asked != before or before[0] != 0:
        wrong.append((words, before, asked))
json.dump(wrong, sys.stdout)
"""
"""Runs each command in a process of its own that has inherited what is slow to import."""


def compared(machine, directory):
    """The commands that print one thing on the file and another over the bus, with both."""
    commands = [[command, *variant] for command, variants in LOOKING.items() for variant in variants]
    places = [{"RANKD_DIR": str(machine.directory)}, {"RANKD_NATS": machine.up["nats"]}]
    places[1]["RANKD_CREDS"] = str(machine.directory / "auth" / "admin.creds")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
    done = subprocess.run(
        [sys.executable, "-c", COMPARING], input=json.dumps([*places, commands]), capture_output=True, text=True,
        check=True, cwd=directory, env=environment,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_reports_over_the_bus_are_for_those_who_may_see_them(machine):
    machine.start("--simulate", "1", "--no-local-agent")
    machine.rankd("submit", "--as", "alice", "--hold", "--export-env", "SECRET=xyzzy", "--", "true")
    place = ["--nats", machine.up["nats"], "--as", "alice"]
    for words in (["dump"], ["config", "history"], ["reload", "--dry-run"]):
        assert "is for administrators only; 'alice' asked as an ordinary user" in machine.rankd_fails(*words, *place)
    assert "there is no job 99" in machine.rankd_fails("why", "99", "--gap", *place)
    assert "there is no factor 'agge'" in machine.rankd_fails("whatif", "--weights", "agge=1", *place, status=2)
    told = machine.rankd_fails("run", *place, "-t", "90s", "--", "true", status=125)
    assert "simulated nodes write none" in told.splitlines()[-1]
    assert "Traceback" not in told
    dumped = machine.rankd("dump", "--admin", *place)
    assert '"user": "alice"' in dumped
    assert "xyzzy" not in dumped
