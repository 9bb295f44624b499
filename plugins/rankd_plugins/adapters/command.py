"""Command: the output of a program, in CSV, JSON, or the format of Slurm's commands.

options = { argv = ["/usr/bin/sshare", "-a", "-l", "-P"], format = "slurm", environment = { LC_ALL = "C" } }

``argv`` is the program and its arguments; no shell is used. The program starts in the configuration's directory, and
its standard input is empty. If its time is over, or if it prints too much, it is ended with all processes that it
started. Its output counts only if it ends with 0. Otherwise the error shows the last line of its standard error.
"""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from typing import IO

from rankd.core.adapter.source import ReadRequest, Row, check_options, text_option
from rankd.core.adapter.text import rows_of_text

_FORMATS = ("csv", "json", "slurm")
_CHUNK = 65536
_MOST_STDERR = 4096
_MARGIN = 0.8
"""The part of the time limit that the program may use. The rest is for ending it and reporting that."""


class Command:
    """One run of a program."""

    def __init__(self, request: ReadRequest) -> None:
        check_options(request, "argv", "format", "delimiter", "environment")
        argv, environment = request.options.get("argv"), request.options.get("environment", {})
        if not isinstance(argv, list) or not argv or not argv[0]:
            raise ValueError('options.argv: a list is needed, the program first: ["/usr/bin/sshare", "-P"]')
        if not isinstance(environment, dict):
            raise ValueError("options.environment: a table is needed")  # noqa: TRY004 - as every bad option
        self._argv, self._environment = argv, environment
        self._format = text_option(request, "format")
        self._delimiter = text_option(request, "delimiter", ",")
        if self._format not in _FORMATS:
            raise ValueError(f"options.format: '{self._format}' is not one of {', '.join(_FORMATS)}")
        self._request = request

    def read(self) -> list[Row]:
        """The rows that the program prints."""
        output = self._run()
        return rows_of_text(output.decode("utf-8"), self._format, self._request.input, self._delimiter)

    def _run(self) -> bytes:
        # the program stays in the process group of this process; rankd ends the whole group
        with subprocess.Popen(  # noqa: S603 - an administrator names the program; no shell
            self._argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._request.directory,
            env={**os.environ, **self._environment},
        ) as process:
            said: list[bytes] = []
            listener = threading.Thread(target=_listen, args=(process.stderr, said), daemon=True)
            listener.start()
            try:
                output = self._output(process)
            finally:
                process.kill()
            listener.join(1)
        if process.returncode:
            raise ValueError(f"{self._argv[0]} ended with {process.returncode}: {_last_line(said)}")
        return output

    def _output(self, process: subprocess.Popen[bytes]) -> bytes:
        """The whole output, after the program has ended.

        Raises:
            ValueError: the program took too long or printed too much.
        """
        end = time.monotonic() + self._request.time_limit_s * _MARGIN
        parts, size = [], 0
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        while part := self._part(process.stdout.fileno(), end):
            size += len(part)
            if size > self._request.largest_bytes:
                raise ValueError(f"{self._argv[0]} printed more than {self._request.largest_bytes} bytes; ended")
            parts.append(part)
        try:
            process.wait(max(end - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            raise self._too_late() from None
        return b"".join(parts)

    def _part(self, stdout: int, end: float) -> bytes:
        if not select.select([stdout], [], [], max(end - time.monotonic(), 0))[0]:
            raise self._too_late()
        return os.read(stdout, _CHUNK)

    def _too_late(self) -> ValueError:
        return ValueError(f"{self._argv[0]} took longer than {self._request.time_limit_s * _MARGIN:g} s; ended")


def _listen(stderr: IO[bytes] | None, said: list[bytes]) -> None:
    """Read standard error to its end, so that the program does not block. Only the newest bytes are kept."""
    while part := os.read(stderr.fileno(), _CHUNK) if stderr else b"":
        said[:] = [b"".join([*said, part])[-_MOST_STDERR:]]


def _last_line(said: list[bytes]) -> str:
    lines = b"".join(said).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "its standard error is empty"
