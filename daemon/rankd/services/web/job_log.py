"""The request of a tab for the log of a job: which stream of which run, and whether this visitor may follow it."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from rankd.core.errors import Refused
from rankd.services.web.log_feed import Wanted
from rankd.services.web.page import NotSignedIn, Page, number, parameters
from rankd.services.web.view import Given
from rankd.store.look.web.job import IS_OVER, name_in
from rankd.wire.session import JobLog

LONGEST_NODE = 256


async def stream_log(page: Page, request: Request) -> Response:
    """A tab's stream of what a job writes. The intake decides whether the visitor may read it, as for ``rankd logs``.

    Raises:
        NotSignedIn: nobody is named.
        Refused: ``bad_request``, ``bad_job_id``.
        Unavailable: ``too_many_logs``.
    """
    user = page.who(request).user
    if not user:
        raise NotSignedIn
    asker = page.asker(request)
    wanted = log_in(parameters(request) | {"id": str(request.path_params["id"])})
    page.logs.check_room(user)

    async def is_over() -> bool:
        return await page.look(IS_OVER, asker, {"id": str(wanted.id)})

    stream = page.logs.follow(Wanted(user, wanted, is_over, partial(page.may_go_on, request)))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def log_in(given: Given) -> JobLog:
    """Which log the parameters of an address mean.

    Raises:
        Refused: ``bad_request``, ``bad_job_id``.
    """
    stream = given.get("stream", "stdout")
    if stream not in ("stdout", "stderr"):
        raise Refused("bad_request", f"'{stream[:40]}' is no stream of a job; choose stdout or stderr", "stream")
    node = given.get("node")
    if node is not None and len(node) > LONGEST_NODE:
        raise Refused("bad_request", f"a node's name has at most {LONGEST_NODE} characters", "node")
    return JobLog(
        id=name_in(given), stream="stderr" if stream == "stderr" else "stdout", node=node,
        attempt=number(given, "attempt") or None,
    )  # fmt: skip
