"""docs/how-to/slurm.md, done as it stands there: from Slurm's files to a rankd that shows Slurm's fair shares."""

from __future__ import annotations

import re
import time
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "slurm.md").read_text(encoding="utf-8")

FILES = re.compile(r"`(slurm/[\w.]+)`:\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ rankd (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def commands() -> list[tuple[list[str], list[str]]]:
    """Words and the lines shown, of every command on the page."""
    blocks = [block for block in CONSOLE.findall(PAGE) for block in COMMAND.findall(block)]
    return [(words.split(), [line.rstrip() for line in shown.splitlines()]) for words, shown in blocks]


def test_the_commands_on_the_page_do_what_it_says(machine):
    directory = machine.directory.parent
    for name, text in FILES.findall(PAGE):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    importing, checking, up, *looks = commands()
    for words, shown in (importing, checking):
        assert [line.rstrip() for line in machine.rankd(*words).splitlines()] == shown
    assert up[0][:1] == ["up"]
    machine.start(*up[0][1:])
    deadline = time.monotonic() + 60
    while (found := fairshares(machine)) != slurms() and time.monotonic() < deadline:
        machine.rankd("db", "sql", "SELECT 1")  # takes its time, as a look does
    assert found == slurms()
    assert [words[0] for words, _ in looks] == ["share", "prio"]
    for words, shown in looks:
        assert [line.rstrip() for line in machine.rankd(*words).splitlines()] == shown


def slurms() -> dict[tuple[str, str], str]:
    """What sshare printed."""
    [text] = [text for name, text in FILES.findall(PAGE) if name.endswith("sshare.txt")]
    rows = [line.split("|") for line in text.splitlines()[1:]]
    return {(row[0].strip(), row[1]): row[7] for row in rows if row[1]}


def fairshares(machine) -> dict[tuple[str, str], str]:
    query = (
        'SELECT account, "user", fairshare FROM association_share WHERE "user" IS NOT NULL AND fairshare IS NOT NULL'
    )
    return {(row["account"], row["user"]): f"{row['fairshare']:.6f}" for row in machine.rows(query)}
