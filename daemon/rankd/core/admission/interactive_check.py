"""The rules for jobs whose input and output a client follows."""

from __future__ import annotations

from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest

FIELD = "interactive"


def check_interactive(request: JobRequest) -> None:
    """Check what such a job can't be.

    Raises:
        Refused: ``bad_interactive``: it is an array or has a script; or its input comes from a client and from a file.
    """
    interactive = request.interactive
    if interactive is None:
        return
    if request.array is not None or request.script is not None:
        what = "an array" if request.array is not None else "a job with a script"
        message = f"{what} can't be interactive; submit it without 'interactive', and read its output by `rankd logs`"
        raise Refused("bad_interactive", message, FIELD)
    if request.stdin is not None and (interactive.input or interactive.pty):
        message = "an interactive job gets its input from its client; leave 'stdin' out, or set 'input' to false"
        raise Refused("bad_interactive", message, FIELD)
