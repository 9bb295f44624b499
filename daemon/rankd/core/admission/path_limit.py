"""Limits on the paths that a job names. Nodes open them, so they must be within the limits of the kernel."""

from __future__ import annotations

from rankd.core.admission.limit import check_no_nul
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest

MAX_PATH_BYTES = 4_096
"""PATH_MAX of Linux."""

MAX_PATH_DEPTH = 64
PATH_FIELDS = ("cwd", "stdin", "stdout", "stderr")


def check_paths(request: JobRequest) -> None:
    """Refuse paths that hold NUL characters, are too long or too deep.

    Raises:
        Refused: ``bad_text``, ``path_too_long`` (bytes of UTF-8), ``path_too_deep`` (parts between slashes).
    """
    for field in PATH_FIELDS:
        if path := getattr(request, field):
            check_no_nul(field, path)
            # a character has at most four bytes, and a path has at most one part more than it has slashes
            if len(path) * 4 > MAX_PATH_BYTES or path.count("/") >= MAX_PATH_DEPTH:
                _check(field, path)


def _check(field: str, path: str) -> None:
    length = len(path.encode(errors="replace"))
    if length > MAX_PATH_BYTES:
        message = f"{field} is a path of {length} bytes; the limit is {MAX_PATH_BYTES}; give a shorter path"
        raise Refused("path_too_long", message, field)
    depth = sum(1 for part in path.split("/") if part)
    if depth > MAX_PATH_DEPTH:
        message = f"{field} is a path of {depth} directories; the limit is {MAX_PATH_DEPTH}; give a shallower path"
        raise Refused("path_too_deep", message, field)
