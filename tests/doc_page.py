"""The documentation's code blocks: how they are read, and how an output is compared with what a page shows.

Blocks in ``console``, ``sh``, ``json`` and ``python`` are run, in order, in one session per page
(``tests/system/test_docs_run.py``). HTML comments directly before a block say how; a reader does not see them:

=============================  ========================================================================================
``<!-- not run: REASON -->``   the block is left out
``<!-- file: PATH -->``        the block is written to this file, in any language; a command may use it
``<!-- append: PATH -->``      the same, at the end of the file that is there
``<!-- inside: A as B -->``    Python lines in place of those that ``A`` has between connecting and closing make ``B``
``<!-- varies: WORD … -->``    these words of the output stand for any word (measured numbers)
``<!-- status: N -->``         the last command of the block ends with this exit status, not 0
``<!-- is: STRUCT … -->``      each JSON document of the block decodes as the struct of that name in ``rankd.wire``
``<!-- run: COMMANDS -->``     shell lines that the page does not show, run where they stand (state that others made)
=============================  ========================================================================================

In outputs, ``…`` stands for any text on the line, a line of ``…`` alone for any lines. White space and rules
(``----``) compare equal whatever their length. Always of any value: instants, times such as ``0:06``, ports of
127.0.0.1, milliseconds, and the numbers behind ``generation``, ``revision``, ``pid`` and the names of services.
``vm`` is this machine, and root whoever runs the tests.
"""

from __future__ import annotations

import getpass
import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")})

RUN_LANGUAGES = frozenset({"console", "sh", "json", "python"})
MARKS = frozenset({"not run", "file", "append", "inside", "varies", "status", "is", "run"})

_ITEM = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$|^<!--\s*(?P<mark>[a-z ]+):(?P<value>.*?)-->$",
    re.MULTILINE | re.DOTALL,
)
_TOKEN = re.compile(
    r"(?P<any>…)"
    r"|(?P<instant>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
    r"|(?P<port>127\.0\.0\.1:\d+)"
    r"|(?P<service>(?:intake|prioritizer|scheduler|forecaster|gateway|agent|nats|pid|generation|revision) +\d+)"
    r"|(?P<time>\b(?:\d+-)?(?:\d+:)?\d+:\d\d\b)"
    r"|(?P<milliseconds>\d+(?:\.\d+)? ms\b)"
    r"|(?P<rule>-{3,})"
    r"|(?P<space>[ \t]+)"
)
_PATTERNS = {
    "any": r"[^\n]*?",
    "instant": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
    "port": r"127\.0\.0\.1:\d+",
    "time": r"(?:\d+-)?(?:\d+:)?\d+:\d\d",
    "milliseconds": r"\d+(?:\.\d+)? ms",
    "rule": r"-{3,}",
    "space": r"[ \t]+",
}


class Block(NamedTuple):
    """One fenced block, or commands that the page does not show (language ``run``)."""

    page: Path
    line: int
    language: str
    text: str
    marks: dict[str, str]

    @property
    def not_run(self) -> str:
        """Why it is left out; empty if it is run."""
        return self.marks.get("not run", "")


class Command(NamedTuple):
    """Shell text, and the output that the page shows of it (None: nothing is claimed)."""

    text: str
    shown: str | None


def blocks(page: Path) -> list[Block]:
    """All blocks that are run, marked, or set something up."""
    return list(_blocks(page, page.read_text(encoding="utf-8")))


def _blocks(page: Path, text: str) -> Iterator[Block]:
    marks: dict[str, str] = {}
    end = 0
    for match in _ITEM.finditer(text):
        if text[end : match.start()].strip():
            marks = {}
        end, line = match.end(), text.count("\n", 0, match.start()) + 1
        if match["mark"] is None:
            if match["language"] in RUN_LANGUAGES or marks:
                yield Block(page, line, match["language"], _dedented(match), marks)
            marks = {}
        elif match["mark"] == "run":
            yield Block(page, line, "run", match["value"].strip("\n "), {})
        elif match["mark"] in MARKS:
            marks = {**marks, match["mark"]: match["value"].strip()}


def _dedented(match: re.Match[str]) -> str:
    indent = match["indent"]
    return "".join(line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))


def commands(block: Block) -> list[Command]:
    """What a reader would type, with what the page says comes of it."""
    if block.language != "console":
        return [Command(block.text.rstrip("\n"), None)]
    found: list[Command] = []
    lines = block.text.splitlines()
    while lines:
        line = lines.pop(0)
        assert line.startswith("$ "), f"{block.page.name}:{block.line}: the block must begin with '$ '"
        text = line.removeprefix("$ ")
        while not _is_whole(text):
            assert lines, f"{block.page.name}:{block.line}: unfinished command {text!r}"
            text += "\n" + lines.pop(0)
        shown: list[str] = []
        while lines and not lines[0].startswith("$ "):
            shown.append(lines.pop(0))
        found.append(Command(text, "\n".join(shown) if shown else None))
    return found


def _is_whole(text: str) -> bool:
    if text.endswith("\\"):
        return False
    return subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False).returncode == 0


def differs(shown: str, actual: str, varying: str = "") -> bool:
    """Whether an output is not what the page shows."""
    return re.fullmatch(_expression(shown, frozenset(varying.split())), _tidy(actual)) is None


def begins_otherwise(shown: str, actual: str) -> bool:
    """The same of a program that goes on writing."""
    return re.match(_expression(shown, frozenset()), _tidy(actual)) is None


def _tidy(text: str) -> str:
    return "".join(f"{line.strip()}\n" for line in text.splitlines())


def _expression(shown: str, varying: frozenset[str]) -> str:
    return "".join(
        r"(?:[^\n]*\n)*?" if line.strip() == "…" else _line(line.strip(), varying) + r"\n"
        for line in shown.splitlines()
    )


def _line(line: str, varying: frozenset[str]) -> str:
    return "".join(r"\S+" if word in varying else part for word, part in _words(line))


def _words(line: str) -> Iterator[tuple[str, str]]:
    """The words and the white space of a line, each with its pattern."""
    for word in re.split(r"(?<=\S)(?=\s)|(?<=\s)(?=\S)", _joined(line)):
        text = word.replace("\0", " ")
        yield text, _PATTERNS["space"] if not text.strip() else "".join(_parts(text))


def _joined(line: str) -> str:
    """``pid 17`` and ``1.2 ms`` are compared as one word."""
    return _TOKEN.sub(lambda match: match[0] if match.lastgroup == "space" else match[0].replace(" ", "\0"), line)


def _parts(text: str) -> Iterator[str]:
    end = 0
    for match in _TOKEN.finditer(text):
        yield _literal(text[end : match.start()])
        kind = match.lastgroup or ""
        yield _PATTERNS.get(kind) or re.escape(match[0].split()[0]) + r" +\d+"
        end = match.end()
    yield _literal(text[end:])


def _literal(text: str) -> str:
    machine, user = re.escape(platform.node()), re.escape(getpass.getuser())
    escaped = re.sub(r"\bvm\b", lambda _: f"(?:vm|{machine})", re.escape(text))
    return re.sub(r"\broot\b(?!\\?\.)", lambda _: f"(?:root|{user})", escaped)
