"""Command: what a program prints, as CSV or JSON, or as Slurm's commands do.

options = { argv = ["/usr/bin/sshare", "-a", "-l", "-P"], format = "slurm", environment = { LC_ALL = "C" } }

No shell: ``argv`` is the program and its arguments. It starts in the configuration's directory with nothing on its
standard input. It is ended, with all that it started, when its time is over or it has printed too much. What it
prints is taken only if it ends with 0; otherwise the last line of its standard error is shown.
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
"""Part of the time that the program may take: what ends it must still be there to say so."""


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
        """The rows that it prints."""
        output = self._run()
        return rows_of_text(output.decode("utf-8"), self._format, self._request.input, self._delimiter)

    def _run(self) -> bytes:
        # in this process's own group, which rankd ends as a whole
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
        """All of it, and its end, in time."""
        end = time.monotonic() + self._request.time_limit_s * _MARGIN
        parts, size = [], 0
        assert process.stdout is not None  # noqa: S101 - as it was started
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
    """Read to the end, or the program would block; only the newest is kept."""
    while part := os.read(stderr.fileno(), _CHUNK) if stderr else b"":
        said[:] = [b"".join([*said, part])[-_MOST_STDERR:]]


def _last_line(said: list[bytes]) -> str:
    lines = b"".join(said).decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
