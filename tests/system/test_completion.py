"""Real shells complete rankd's words with the script of `rankd completion`, and run nothing that a name says."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from system.conftest import RANKD
from watch import PATIENCE_S

OTHERS = [
    pytest.param(shell, marks=pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed"))
    for shell in ("zsh", "fish")
]
"""Bash has to be there; the tests of the other shells are skipped without them."""
IN_BASH = """
source <(rankd completion bash)
COMP_WORDS=({words}) COMP_CWORD={place}
_shtab_rankd
((${{#COMPREPLY[@]}})) && printf '%s\\n' "${{COMPREPLY[@]}}"
true
"""
HOSTILE = (
    "$(touch run)",
    "`touch run`",
    "a;touch run",
    "x|touch run",
    "'&touch run&'",
    '"$(touch run)"',
    "a\ntouch run",
)


def program(folder: Path, answer: str = "") -> dict[str, str]:
    """Variables for a shell that finds ``rankd`` here. ``answer``: the shell line that stands for `rankd complete`."""
    rankd = shlex.join(map(str, RANKD))
    answer = answer or f'exec {rankd} complete --within {PATIENCE_S} "$@"'
    lines = f'if [ "$1" = complete ]; then shift; {answer}; else exec {rankd} "$@"; fi\n'
    (folder / "bin").mkdir(parents=True)
    (file := folder / "bin" / "rankd").write_text(f"#!/bin/sh\n{lines}")
    file.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RANKD_", "XDG_"))}
    patient = {"RANKD_COMPLETE_S": str(PATIENCE_S)}
    return kept | patient | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb"}


def hostile(folder: Path) -> dict[str, str]:
    """A ``rankd`` whose names are hostile. Their last one is harmless, so that it is seen that they came."""
    (folder / "names").write_text("\n".join((*HOSTILE, "harmless\n")))
    return program(folder, f"cat {shlex.quote(str(folder / 'names'))}")


def in_bash(environment: dict[str, str], *words: str) -> list[str]:
    """What bash offers for the last word."""
    text = IN_BASH.format(words=shlex.join(words), place=len(words) - 1)
    done = subprocess.run(
        ["bash", "--norc", "-c", text], env=environment, cwd=environment["HOME"], capture_output=True, text=True,
        check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


def in_fish(environment: dict[str, str], *words: str) -> list[str]:
    text = f"rankd completion fish | source; complete -C {shlex.quote(' '.join(words))}"
    done = subprocess.run(
        ["fish", "--no-config", "-c", text], env=environment, cwd=environment["HOME"], capture_output=True, text=True,
        check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


def in_zsh(environment: dict[str, str], *words: str, until: str) -> str:
    """What zsh shows after these words and the tab key, at a terminal of its own, until the text comes."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(environment["HOME"])
        os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
    try:
        load = 'autoload -Uz compinit; compinit -D -u; eval "$(rankd completion zsh)"; print load""ed'
        os.write(terminal, f"{load}\n".encode())
        read(terminal, "loaded")
        os.write(terminal, f"{' '.join(words)}\t\t".encode())
        return read(terminal, until)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def read(terminal: int, until: str) -> str:
    text, end = "", time.monotonic() + PATIENCE_S
    while until not in text:
        assert select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0], text
        text += os.read(terminal, 65_536).decode(errors="replace")
    return text


def test_bash_completes_commands_verbs_options_and_files(tmp_path):
    environment = program(tmp_path)
    (tmp_path / "jobs.json").touch()
    assert in_bash(environment, "rankd", "sub") == ["submit"]
    assert set(in_bash(environment, "rankd", "node", "")) >= {"drain", "enrol", "trust"}
    assert in_bash(environment, "rankd", "submit", "--ignore") == ["--ignore-unknown"]
    assert in_bash(environment, "rankd", "submit", "--file", "jo") == ["jobs.json"]
    assert in_bash(environment, "rankd", "completion", "") == ["bash", "zsh", "fish"]
    assert "complete" not in in_bash(environment, "rankd", "")


def test_bash_completes_jobs_queues_and_nodes_of_the_live_system(machine, tmp_path):
    machine.start("--simulate", "2")
    machine.rankd("submit", "--hold", "--count", "12", "--", "true")
    known = nodes_of(machine)
    environment = program(tmp_path) | {"RANKD_DIR": str(machine.directory)}
    assert sorted(in_bash(environment, "rankd", "cancel", "1")) == ["1", "10", "11", "12"]
    assert sorted(in_bash(environment, "rankd", "queue", "-j", "3,1")) == ["3,1", "3,10", "3,11", "3,12"]
    assert "root.default" in in_bash(environment, "rankd", "submit", "--queue", "root.")
    assert sorted(in_bash(environment, "rankd", "node", "drain", "")) == known
    elsewhere = program(tmp_path / "home")
    assert in_bash(elsewhere, "rankd", "cancel", "--dir", "=", str(machine.directory), "9") == ["9"]
    assert in_bash(elsewhere, "rankd", "cancel", "9") == []


def test_no_name_is_run_by_bash(tmp_path):
    environment = hostile(tmp_path)
    assert "harmless" in in_bash(environment, "rankd", "cancel", "")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("shell", OTHERS)
def test_other_shells_complete_commands_and_jobs_and_run_no_name(shell, tmp_path):
    environment = hostile(tmp_path)
    if shell == "fish":
        assert in_fish(environment, "rankd", "sub") == ["submit"]
        assert "harmless" in in_fish(environment, "rankd", "cancel", "")
    else:
        assert "submit" in in_zsh(environment, "rankd", "sub", until="submit")
        assert "harmless" in in_zsh(environment, "rankd", "cancel", "h", until="harmless")
        in_zsh(environment, "rankd", "cancel", "", until="harmless")
    assert not (tmp_path / "run").exists()


def nodes_of(machine) -> list[str]:
    """The nodes, once all have registered."""
    end = time.monotonic() + PATIENCE_S
    while len(names := sorted(row["name"] for row in machine.rows("SELECT name FROM nodes"))) < 2:
        assert time.monotonic() < end, names
        time.sleep(0.05)
    return names


def complete(*words: str, cwd: Path) -> tuple[int, str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RANKD_", "XDG_"))}
    done = subprocess.run(
        [*RANKD, "complete", *words], env=environment | {"HOME": str(cwd)}, cwd=cwd, capture_output=True, text=True,
        check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", [("jobs", ""), ("queues", "root."), ("nodes", "", "--dir", "$(id)"), ("jobs",)])
def test_without_a_rankd_no_name_and_no_error_is_printed(words, tmp_path):
    assert complete("--within", str(PATIENCE_S), *words, cwd=tmp_path) == (0, "", "")


def test_a_rankd_that_does_not_answer_is_given_up(tmp_path):
    (up := tmp_path / ".rankd").mkdir()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(up / "login.sock"))
        silent.listen()
        assert complete("jobs", "", cwd=tmp_path) == (1, "", "")


def test_no_other_command_imports_the_library(tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rankd", "--help"], capture_output=True, text=True, check=True,
        cwd=tmp_path,
    )  # fmt: skip
    assert "rankd.cli.main" in done.stderr
    assert "shtab" not in done.stderr
    assert "completion" in done.stdout
    assert "\n  complete " not in done.stdout


def test_a_rankd_that_does_not_answer_does_not_stop_the_shell(tmp_path):
    environment = program(tmp_path, "exec sleep 100000")
    del environment["RANKD_COMPLETE_S"]
    assert in_bash(environment, "rankd", "show", "1") == []


def test_names_that_are_the_same_everywhere_need_no_rankd(tmp_path):
    environment = program(tmp_path)
    assert in_bash(environment, "rankd", "queue", "--states", "pen") == ["pending"]
    assert in_bash(environment, "rankd", "nodes", "--states", "dr") == ["draining", "drained"]
    assert in_bash(environment, "rankd", "acct", "--format", "JobID,Work") == ["JobID,WorkDir"]
