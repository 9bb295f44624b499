"""Every command of the documentation, run as a reader would, page by page; outputs are those that the pages show.

How blocks are marked, and what counts as equal: :mod:`doc_page`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from itertools import chain, repeat
from pathlib import Path

import msgspec
import pytest
from doc_page import PAGES, ROOT, RUN_LANGUAGES, Block, Command, begins_otherwise, blocks, commands, differs
from watch import PATIENCE_S

from rankd.core.model.job import JobRequest
from rankd.wire import configuration, device, message

BIN = Path(sys.executable).parent
KINDS = vars(message) | vars(configuration) | vars(device) | {"JobRequest": JobRequest}
STAYS = "up|intake|prioritizer|scheduler|forecaster|agent|watch"
FOREGROUND = re.compile(rf"^(?:\w+=\S* +)*(?:rankd (?:{STAYS})|nats-server) ?")
CHANGES = "auth init|submit|cancel|hold|release|update|reload|class|node |up"
LOOKS = re.compile(rf"^(?:rankd (?!{CHANGES})|sqlite3|cat |curl )")
UNHELD = re.compile(r"(?<![\w.…])/(?=(?:var/lib|etc)/)")


class Session:
    """A reader's terminals: one that takes commands, and one for each program that stays in the foreground."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._programs: list[tuple[str, int, Path]] = []
        self._started = 0
        environment = {name: text for name, text in os.environ.items() if not name.startswith(("RANKD_", "NATS_"))}
        environment |= {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(directory), "COLUMNS": "200"}
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.run("set -m")

    def run(self, text: str) -> tuple[str, int]:
        """Output and status of a command; the shell keeps its directory and variables."""
        self._shell.stdin.write(f"{{ {text}\n}} </dev/null 2>&1; printf '\\n<end %s>\\n' $?\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        watchdog = threading.Timer(PATIENCE_S, self._shell.kill)
        watchdog.start()
        try:
            for line in self._shell.stdout:
                if found := re.fullmatch(r"<end (\d+)>\n", line):
                    lines[-1:] = [lines[-1].removesuffix("\n")] if lines else []
                    return "".join(lines), int(found[1])
                lines.append(line)
        finally:
            watchdog.cancel()
        raise AssertionError(f"the shell ended: {text}\n{''.join(lines)}")

    def start(self, command: Command) -> str:
        """A program that stays; returns once it says what the page shows of it. One of its name is ended before."""
        name = " ".join(re.sub(r"^(?:\w+=\S* +)*", "", command.text).split()[:2])
        self._end(name)
        self._started += 1
        log = self.directory / f"terminal-{self._started}.log"
        log.touch()
        output, _ = self.run(f"{{ {command.text}\n}} >{log} 2>&1 &\necho started $!")
        number = int(re.search(r"started (\d+)", output)[1])
        self._programs.append((name, number, log))
        shown = command.shown or ("…\nCtrl-C stops everything…" if name == "rankd up" else "…")
        until = time.monotonic() + PATIENCE_S
        while begins_otherwise(shown, log.read_text(errors="replace")):
            assert time.monotonic() < until, f"{command.text}\nmust say:\n{shown}\nbut says:\n{log.read_text()}"
            time.sleep(0.05)
        return log.read_text()

    def _end(self, name: str) -> None:
        for program in [program for program in self._programs if program[0] == name]:
            self._programs.remove(program)
            self.run(f"kill -INT -- -{program[1]} && wait {program[1]}")

    def close(self) -> None:
        """As a reader who presses Ctrl-C in every terminal."""
        for program in reversed(self._programs.copy()):
            self._end(program[0])
        with self._shell:
            self._shell.stdin.close()
            try:
                self._shell.wait(timeout=PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._shell.kill()


@pytest.fixture
def session(tmp_path):
    """In a directory that looks like a fresh clone."""
    for name in ("config", "examples", "tests/trace"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / ".venv").symlink_to(BIN.parent)
    session = Session(tmp_path)
    yield session
    session.close()


class Reader:
    """Does what a page says, and compares."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.wrong: list[str] = []
        with socket.create_server(("127.0.0.1", 0)) as found, socket.create_server(("127.0.0.1", 0)) as another:
            self._ports = {"4222": str(found.getsockname()[1]), "9102": str(another.getsockname()[1])}

    def follow(self, block: Block) -> None:
        text = self._here(block.text)
        if "inside" in block.marks:
            self._insert(text, *re.split(r" as ", block.marks["inside"]))
        elif "file" in block.marks or "append" in block.marks:
            self._write(text, block.marks)
        elif block.language == "json":
            check_json(block)
        elif block.language == "python":
            compile(text, f"{block.page.name}:{block.line}", "exec")
        elif block.language in ("console", "sh", "run"):
            self._do(block)
        else:
            raise AssertionError(f"{block.page.name}:{block.line}: nothing can be done with {sorted(block.marks)}")

    def _here(self, text: str) -> str:
        """Directories of the system are below the session's, and the usual ports are ones that are free."""
        text = UNHELD.sub(f"{self._session.directory}/", text)
        return re.sub("|".join(self._ports), lambda usual: self._ports[usual[0]], text)

    def _write(self, text: str, marks: dict[str, str]) -> None:
        path = self._session.directory / self._here(marks.get("file") or marks["append"]).lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if "file" in marks else "a") as file:
            file.write(text)

    def _insert(self, text: str, source: str, target: str) -> None:
        lines = (self._session.directory / source).read_text().splitlines(keepends=True)
        first = next(place for place, line in enumerate(lines) if "nats.connect" in line) + 1
        last = next(place for place, line in enumerate(lines) if "client.close" in line)
        (self._session.directory / target).write_text("".join([*lines[:first], text, *lines[last:]]))

    def _do(self, block: Block) -> None:
        found = commands(block)
        for place, command in enumerate(found):
            where = f"{block.page.relative_to(ROOT)}:{block.line}"
            here = Command(self._here(command.text), None if command.shown is None else self._here(command.shown))
            status = int(block.marks.get("status", "0")) if place == len(found) - 1 else 0
            if not status and FOREGROUND.match(here.text):
                self._session.start(here)
            else:
                self._compare(where, here, block.marks.get("varies", ""), status)

    def _compare(self, where: str, command: Command, varying: str, status: int) -> None:
        """Looking commands are repeated until they show it: other processes must come that far."""
        until = time.monotonic() + (PATIENCE_S if LOOKS.match(command.text) else 0)
        for pause_s in chain((0.1, 0.2), repeat(0.4)):  # each look is a process that takes a core from the others
            output, ended = self._session.run(command.text)
            wrong = command.shown is not None and differs(command.shown, output, varying)
            if not wrong and ended == status:
                return
            if time.monotonic() >= until:
                break
            time.sleep(pause_s)
        shown = "" if command.shown is None else f"\nthe page shows:\n{command.shown}"
        self.wrong.append(f"{where}: $ {command.text}{shown}\nit gives (status {ended}, must be {status}):\n{output}")


def check_json(block: Block) -> None:
    """Every document of the block is JSON, and decodes as what it is said to be, without a key too many."""
    kinds = block.marks.get("is", "").split()
    decoder, text, place, found = json.JSONDecoder(), block.text, 0, []
    while place < len(text.rstrip()):
        value, place = decoder.raw_decode(text, place)
        place += len(text[place:]) - len(text[place:].lstrip())
        found.append(value)
    for value, name in zip(found, kinds or [""] * len(found), strict=True):
        if name:
            decoded = msgspec.convert(value, KINDS[name])
            assert value.keys() <= set(decoded.__struct_fields__), f"{block.page.name}:{block.line}: {value.keys()}"


def has_work(page: Path) -> bool:
    return any(not block.not_run for block in blocks(page))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "page", [page for page in PAGES if has_work(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_does_what_it_says(page, session):
    reader = Reader(session)
    for block in blocks(page):
        if not block.not_run:
            reader.follow(block)
    assert not reader.wrong, "\n\n".join(reader.wrong)


def test_every_block_is_run_or_says_why_not():
    everything = [block for page in PAGES for block in blocks(page)]
    fences = sum(
        len(re.findall(rf"^ *```(?:{'|'.join(sorted(RUN_LANGUAGES))})$", page.read_text(), re.MULTILINE))
        for page in PAGES
    )
    assert fences == sum(block.language in RUN_LANGUAGES for block in everything)
    assert [block for block in everything if "not run" in block.marks and len(block.not_run.split()) < 2] == []
    assert sum(not block.not_run for block in everything) > sum(bool(block.not_run) for block in everything)


def test_no_command_hides_in_a_block_of_another_language():
    hidden = re.compile(r"^```(?!console$)\w*\n(?:(?!```).*\n)*?\$ ", re.MULTILINE)
    assert [page.name for page in PAGES if hidden.search(page.read_text(encoding="utf-8"))] == []
