"""What the demo draws, on real pseudo-terminals: no line wraps, and the story stays on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import closing

import builder
import pytest
from integration.stage import NOW, a_cluster

from rankd.cli.run.demo import _explained
from rankd.cli.run.demo_story import STORY
from rankd.store.engine.reading import open_for_reading

DRAWS = """
import sys
from pathlib import Path
from rankd.cli.run.demo_screen import Screen
from rankd.cli.run.demo_story import STORY
from rankd.cli.main import Guarded
from rankd.store.engine.reading import open_for_reading

sys.stdout = Guarded(sys.stdout)
connection = open_for_reading(Path(sys.argv[1]))
with Screen() as screen:
    for wave in STORY:
        screen.tell(wave.telling)
        screen.draw(connection)
"""


class Terminal:
    """As much of a terminal as the demo uses; keeps what is in sight, and counts lines that did not fit."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[str] = [""]
        self.row = self.wrapped = 0

    def feed(self, text: str) -> None:
        for part in re.findall(r"\x1b\[[?0-9;]*[a-zA-Z]|\r|\n|[^\x1b\r\n]+", text):
            if part == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
                if self.row >= self.rows:
                    self.lines.pop(0)
                    self.row -= 1
            elif part.startswith("\x1b["):
                self._control(part)
            elif part != "\r":
                self.wrapped += len(self.lines[self.row] + part) > self.columns
                self.lines[self.row] += part

    def _control(self, part: str) -> None:
        if part.endswith("A"):
            self.row = max(0, self.row - int(part[2:-1] or 1))
        elif part.endswith("K"):
            self.lines[self.row] = ""


def drawn(database, columns, rows):
    """The terminal after a program that draws all of the story has ended."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-c", DRAWS, str(database)], stdout=inner, env=environment | {"TERM": "xterm"}
    ) as program:
        os.close(inner)
        output = b""
        try:
            while data := os.read(outer, 65536):
                output += data
        except OSError:  # its last writer has gone
            pass
    assert program.returncode == 0
    os.close(outer)
    terminal = Terminal(columns, rows)
    terminal.feed(output.decode())
    return terminal


@pytest.fixture(autouse=True)
def new_database(tmp_path):
    return builder.new_database(tmp_path)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (200, 60)])
async def test_the_story_stays_on_the_screen_and_no_line_wraps(broker, tmp_path, columns, rows):
    async with a_cluster(tmp_path, broker.url) as cluster:
        names = [job["name"] for wave in STORY for job in wave.jobs]
        jobs = [
            builder.accepted(user=user, class_value=1000 * (user == "bob"), request={"name": name}, urgency=urgency)
            for user, urgency, name in [("alice", 31, names[0]), *(("bob", 16, name) for name in names[1:20])]
        ]
        await cluster.submit(*jobs, *(builder.accepted(request={"name": name}) for name in names[20:]))
        await cluster.prioritizer().run_once(NOW)
        terminal = drawn(cluster.database.path, columns, rows)
    assert terminal.wrapped == 0
    text = "\n".join(terminal.lines)
    for wave in STORY[-4:]:
        assert f"-- {wave.telling}" in text
    assert text.index("generation ") < text.index("RANK") < text.index("-- ")
    assert len(re.findall(r"^ +\d+ +\d+ (?:alice|bob) ", text, re.MULTILINE)) == 10


async def test_the_demo_explains_a_job_behind_another_users(broker, tmp_path):
    async with a_cluster(tmp_path, broker.url) as cluster:
        await cluster.submit(*(builder.accepted(user="bob", class_value=1000) for _ in range(3)))
        await cluster.submit(*(builder.accepted() for _ in range(12)))
        await cluster.prioritizer().run_once(NOW)
        with closing(open_for_reading(cluster.database.path)) as connection:
            said = _explained(connection)
    assert "(true of alice)" in said[0]
    assert said[-2:] == [
        "Just above was job 3 of bob with 1000 (+1000):",
        "  difference in points: class +1000",
    ] or ("of bob" in said[-2] and said[-1].startswith("  difference in points: class +1000"))
    assert max(map(len, said)) <= 80
