"""Opening trace files: plain or compressed by gzip, read line by line with bounds, since others made them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Protocol

from rankd.core.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankd.core.simulate.trace import TraceJob

LONGEST_LINE = 64 * 1024
"""Bytes of a line. A longer one is refused, before all of it is read."""
_DIGITS = 12
_FORMATS = "A trace is in the Standard Workload Format (18 columns), or what `sacct -P` or `rankd acct -P` printed"
_GZIP = b"\x1f\x8b"


class Readable(Protocol):
    """A file that is read line by line."""

    def readline(self, size: int, /) -> bytes:
        """At most ``size`` bytes of the next line."""


def read_trace(path: str) -> Iterator[TraceJob]:
    """The jobs of a trace in either format, which its first line tells.

    Raises:
        Refused: ``bad_trace``: it has no jobs; see also :func:`trace_lines`, :func:`.read_swf` and :func:`.read_sacct`.
    """
    from itertools import chain

    from rankd.core.simulate.sacct import is_sacct, read_sacct
    from rankd.core.simulate.swf import read_swf

    has_jobs = False
    try:
        with trace_lines(path) as lines:
            first = next(lines, b"")
            for job in (read_sacct if is_sacct(first) else read_swf)(chain((first,), lines)):
                has_jobs = True
                yield job
    except Refused as error:
        if error.code != "bad_trace":
            raise
        hint = "" if has_jobs else f". {_FORMATS}"
        raise Refused(error.code, f"{path}: {error.message}{hint}", error.field) from None
    if not has_jobs:
        raise Refused("bad_trace", f"no jobs in {path}. {_FORMATS}", "trace")


def max_procs(path: str) -> int | None:
    """The number of processors that the header of a trace states (``; MaxProcs: 338``); None if there is none.

    Raises:
        Refused: as :func:`trace_lines`.
    """
    with trace_lines(path) as lines:
        for line in lines:
            if not line.startswith(b";"):
                return None
            name, _, value = line.lstrip(b"; ").partition(b":")
            words = value.split()
            if name.strip().lower() == b"maxprocs" and words and words[0].isdigit() and len(words[0]) < _DIGITS:
                return int(words[0])
    return None


@contextmanager
def trace_lines(path: str) -> Iterator[Iterator[bytes]]:
    """The lines of a trace. A compressed file is known by its first bytes.

    Raises:
        Refused: ``usage``: it can't be read; ``bad_trace``: a line is too long, or the compressed data is damaged.
    """
    import gzip

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs 10 ms at start
            is_compressed = file.read(2) == _GZIP
            file.seek(0)
            yield _lines(_decompressed(file) if is_compressed else file)
    except gzip.BadGzipFile as error:
        raise Refused("bad_trace", f"the compressed file is damaged: {error}; fetch it again", "trace") from None
    except OSError as error:
        raise Refused("usage", f"{path} can't be read: {error.strerror or error}", "trace") from None


def _decompressed(file: IO[bytes]) -> Readable:
    import gzip

    return gzip.GzipFile(fileobj=file)


def _lines(file: Readable) -> Iterator[bytes]:
    import zlib

    number = 0
    while True:
        number += 1
        try:
            line = file.readline(LONGEST_LINE + 1)
        except (EOFError, zlib.error) as error:
            what = f"line {number}: the compressed file is damaged: {error}; fetch it again"
            raise Refused("bad_trace", what, "trace") from None
        if not line:
            return
        if len(line) > LONGEST_LINE:
            raise Refused("bad_trace", f"line {number} is longer than {LONGEST_LINE:,} bytes", "trace")
        yield line
