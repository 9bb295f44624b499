"""Changes: each is one request to rankd, as the visitor. What rankd refuses is shown as it says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rankd.core.errors import Refused
from rankd.services.web.page import Page
from rankd.services.web.what_if import compute
from rankd.store.look.web.job import name_in
from rankd.wire.job_selection import JobCancel, JobRetry, JobSelection, SelectionReply
from rankd.wire.job_update import JobUpdate
from rankd.wire.submission import Submitted

Act = Callable[[Page, Request], Awaitable[Response]]

CHANGES = ("hold", "release", "cancel")
TEXTS = ("queue", "qos", "name", "comment")


def actions() -> dict[str, Act]:
    """What changes something, by its path."""
    return {
        **{f"/job/{{id}}/{change}": partial(_change, change) for change in CHANGES},
        "/job/{id}/update": _update,
        "/job/{id}/retry": _retry,
        "/whatif": compute,
    }


async def _change(change: str, page: Page, request: Request) -> Response:
    who, _ = await page.changer(request)
    name = name_in(request.path_params)
    kind = JobCancel if change == "cancel" else JobSelection
    return _done(await page.asking.ask(who.user, f"job.{change}", kind(id=name), SelectionReply), request, change)


async def _update(page: Page, request: Request) -> Response:
    """Change the fields that the form has."""
    who, fields = await page.changer(request)
    given: dict[str, Any] = {name: fields[name].strip() for name in TEXTS if fields.get(name, "").strip()}
    for name, field, scale in (("time_limit_s", "minutes", 60), ("urgency", "urgency", 1)):
        if text := fields.get(field, "").strip():
            if not (text.isascii() and text.isdecimal()) or len(text) > 9:
                raise Refused("bad_field", f"'{text[:40]}' is not a whole number", field)
            given[name] = int(text) * scale
    if not given:
        raise Refused("usage", "fill in what shall change", "field")
    message = JobUpdate(id=name_in(request.path_params), **given)
    return _done(await page.asking.ask(who.user, "job.update", message, SelectionReply), request, "update")


async def _retry(page: Page, request: Request) -> Response:
    """Submit an ended job again. The form's own key makes a second click give the same job."""
    who, fields = await page.changer(request)
    message = JobRetry(id=name_in(request.path_params), key=fields.get("key", "")[:100] or None)
    found = await page.asking.ask(who.user, "job.retry", message, Submitted)
    return RedirectResponse(f"/job/{found.id}?done=retry", 303)


def _done(reply: SelectionReply, request: Request, change: str) -> Response:
    """Back to the job's page.

    Raises:
        Refused: rankd did not change it.
    """
    if reply.failed:
        one = reply.failed[0]
        raise Refused(one.code, one.message, status=403 if one.code in ("not_owner", "admins_only") else 409)
    return RedirectResponse(f"/job/{name_in(request.path_params)}?done={change}", 303)
