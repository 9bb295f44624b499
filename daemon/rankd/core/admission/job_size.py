"""How large a job may be, in bytes of its request as JSON."""

from __future__ import annotations

from rankd.core.errors import Refused

MAX_JOB_BYTES = 256 * 2**10
"""A quarter of the 1 MiB that NATS servers take as a message unless they are configured otherwise."""


def check_size(n_bytes: int) -> None:
    """Check that a job of this size can be sent to its nodes, together with its ids, nodes and amounts.

    Raises:
        Refused: ``too_large``.
    """
    if n_bytes > MAX_JOB_BYTES:
        message = f"the job has {n_bytes} bytes, {MAX_JOB_BYTES} are allowed; put what is large into a file"
        raise Refused("too_large", message, status=413)
