"""Every looking command prints the same, whether it reads the database or asks over the bus."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

from system.conftest import RANKD

from rankd.cli.main import COMMANDS
from rankd.store.migration import shipped

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
    "reload": [["--dry-run", "--admin"], ["--dry-run", "--admin", "--json"]],
}  # fmt: skip
ONLY_OVER_THE_BUS = {"deadletter", "diag", "health", "watch"}
"""They show what services, the intake and streams have; there is nothing of it in the file to compare with."""
ACTING = {"submit", "cancel", "hold", "release", "update", "node"}
NEITHER = {"up", "demo", "evaluate", "import", "intake", "prioritizer", "scheduler", "agent", "db"}


def test_every_command_is_one_of_these():
    assert set(COMMANDS) == set(LOOKING) | ONLY_OVER_THE_BUS | ACTING | NEITHER


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
    by_file, by_bus = {"RANKD_DIR": str(machine.directory)}, {"RANKD_NATS": machine.up["nats"]}

    def run(words, place):
        base = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
        done = subprocess.run(
            [*RANKD, *words], capture_output=True, text=True, check=False, cwd=tmp_path, env=base | place
        )
        assert done.returncode == 0, (words, place, done.stderr)
        return done.stdout

    wrong = []
    for command, variants in LOOKING.items():
        for words in ([command, *variant] for variant in variants):
            for _ in range(20):  # the cluster lives: it counts what is the same before and after
                before, asked, after = run(words, by_file), run(words, by_bus), run(words, by_file)
                if asked == before or before == after:
                    break
            if asked != before:
                wrong.append((words, before, asked))
    assert not wrong
    for command in sorted(ONLY_OVER_THE_BUS - {"watch"}):
        words = {"deadletter": ["list"], "diag": [], "health": ["intake"]}[command]
        for place in (by_file, by_bus):
            run([command, *words], place)


def test_reports_over_the_bus_are_for_those_who_may_see_them(machine):
    machine.start("--simulate", "1", "--no-local-agent")
    machine.rankd("submit", "--as", "alice", "--hold", "--export-env", "SECRET=xyzzy", "--", "true")
    place = ["--nats", machine.up["nats"], "--as", "alice"]
    for words in (["dump"], ["config", "history"], ["reload", "--dry-run"]):
        assert "is for administrators only; 'alice' asked as an ordinary user" in machine.rankd_fails(*words, *place)
    assert "there is no job 99" in machine.rankd_fails("why", "99", "--gap", *place)
    assert "there is no factor 'agge'" in machine.rankd_fails("whatif", "--weights", "agge=1", *place, status=2)
    dumped = machine.rankd("dump", "--admin", *place)
    assert '"user": "alice"' in dumped
    assert "xyzzy" not in dumped
