"""How large a job may be, in bytes of its request as JSON."""

from __future__ import annotations

from rankd.core.errors import Refused

MAX_JOB_BYTES = 256 * 2**10
"""A quarter of 1 MiB, which is the largest message that a NATS server accepts by default."""


def check_size(n_bytes: int) -> None:
    """Check that a job of this size fits into a message to its nodes, together with its ids, nodes and amounts.

    Raises:
        Refused: ``too_large``.
    """
    if n_bytes > MAX_JOB_BYTES:
        message = f"the job has {n_bytes} bytes, {MAX_JOB_BYTES} are allowed; put large parts into a file"
        raise Refused("too_large", message, status=413)
