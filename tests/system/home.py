"""A user's home on another machine, as far as rankd can tell: no variables of rankd, no directory of `rankd up`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from system.conftest import RANKD


class Home:
    """Runs commands with a configuration directory of its own. ``before``: words before each command."""

    def __init__(self, directory: Path, *before: str) -> None:
        self.directory = directory
        self.before = before
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def files(self) -> Path:
        """Where rankd keeps what is this user's."""
        return self.directory / "config" / "rankd"

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RANKD_")}
        return kept | {"HOME": str(self.directory), "XDG_CONFIG_HOME": str(self.directory / "config")}

    def start(self, *words: str, token: str = "", **more) -> subprocess.Popen[str]:
        """A command that is running; ``token`` is its standard input."""
        process = subprocess.Popen(
            [*self.before, *RANKD, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=more.pop("stderr", subprocess.PIPE), text=True,
            env=self.environment(), cwd=self.directory, **more,
        )  # fmt: skip
        process.stdin.write(token)
        process.stdin.close()
        process.stdin = None
        return process

    def run(self, *words: str, token: str = "", status: int = 0) -> str:
        """What a command prints; what it complains of, if it is refused."""
        process = self.start(*words, token=token)
        output, errors = process.communicate()
        assert process.returncode == status, output + errors
        return errors if status else output
