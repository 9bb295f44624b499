"""``job.attach``: lets a user join the processes of a job, or start a shell or a step in it."""

from __future__ import annotations

import secrets

from rankd.bus.endpoint import Reply, Verb
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import ACTIVE_STATES
from rankd.core.session.attempt import Wanted
from rankd.services.intake.session_verbs import SessionVerbs
from rankd.wire.codec import decode_strict
from rankd.wire.session import AttachWish, JobAttach

ACTION = "job.attach"


def attach_verb(sessions: SessionVerbs) -> Verb:
    """The endpoint."""

    async def attach(asker: Submitter, payload: bytes) -> Reply:
        wanted = decode_strict(payload, JobAttach)
        job, chosen = await sessions.find(asker, ACTION, wanted.id, Wanted("stdout", None, wanted.node))
        if wanted.step is not None:
            _check_step(wanted, job.state)
        wish = AttachWish(
            stdin=wanted.stdin,
            offsets=wanted.offsets,
            replay_bytes=wanted.replay_bytes,
            columns=wanted.columns,
            rows=wanted.rows,
            again=wanted.again,
            step=wanted.step,
        )
        return await sessions.grant(asker, job, chosen, wanted.session or secrets.token_hex(16), wish)

    return Verb(ACTION, attach)


def _check_step(wanted: JobAttach, state: str) -> None:
    """Check that a step can begin.

    Raises:
        Refused: ``not_running``, ``empty_command``.
    """
    step = wanted.step
    if step is None or not step.begins:
        return
    if not step.command:
        raise Refused("empty_command", "the command of a step is empty; name a program", "step.command")
    if state not in ACTIVE_STATES:
        message = f"job {wanted.id} is {state}, so nothing can be started in it; name a job that runs"
        raise Refused("not_running", message, "id", status=409)
