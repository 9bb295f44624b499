"""The routes: pages, their streams, signing in, and the files of the browser."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from rankd.core.errors import RankdError, Refused, Unavailable
from rankd.services.web.action import actions
from rankd.services.web.export import show_metrics
from rankd.services.web.guard import Guard
from rankd.services.web.job_log import stream_log
from rankd.services.web.page import NotSignedIn, Page, parameters
from rankd.services.web.sign_in import sign_in, sign_in_by_password, sign_in_page, sign_out
from rankd.services.web.view import View
from rankd.services.web.views import VIEWS, WHAT_IF, tabs
from rankd.services.web.what_if import show

log = logging.getLogger("rankd.web")

STATIC = Path(__file__).with_name("static")

Handler = Callable[[Request], Awaitable[Response]]


def application(page: Page) -> ASGIApp:
    """Everything behind the listening socket."""
    routes: list[Route | Mount] = [
        Route("/", _safe(page, _home)),
        Route("/metrics", _safe(page, partial(show_metrics, page))),
        Route("/sign-in", _safe(page, partial(sign_in, page))),
        Route("/sign-in", _safe(page, partial(sign_in_by_password, page)), methods=["POST"]),
        Route("/sign-out", _safe(page, partial(sign_out, page)), methods=["POST"]),
        Route(WHAT_IF[0], _admitted(page, partial(show, page))),
        *(Route(view.path, _admitted(page, partial(_whole, page, view))) for view in VIEWS),
        *(Route(f"/live{view.path}", _admitted(page, partial(_stream, page, view))) for view in VIEWS),
        Route("/live/log/{id}", _admitted(page, partial(stream_log, page))),
        *(Route(path, _safe(page, partial(act, page)), methods=["POST"]) for path, act in actions().items()),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    missing = _safe(page, _missing)

    async def on_missing(request: Request, _error: Exception) -> Response:
        return await missing(request)

    return Guard(Starlette(routes=routes, exception_handlers={404: on_missing}), page.site.hosts)


async def _home(_request: Request) -> Response:
    return RedirectResponse("/queue", 303)


async def _missing(request: Request) -> Response:
    raise Refused(
        "unknown_page", f"there is no page {request.url.path[:80]}; the line above has those that are", status=404
    )


def _safe(page: Page, handler: Handler) -> Handler:
    """The handler, with each error as a page that says what to do."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except NotSignedIn:
            return sign_in_page(page, request, 401)
        except RankdError as error:
            return _failed(page, request, error)
        except Exception:  # a request that shows a bug must not end the page for the others
            log.exception("%s %s failed", request.method, request.url.path)
            return _failed(page, request, RankdError("internal_error", "the page failed here; its log says how"))

    return answer


def _admitted(page: Page, handler: Handler) -> Handler:
    """The handler for visitors whom rankd still lets in."""

    async def answer(request: Request) -> Response:
        await page.check_admitted(request)
        return await handler(request)

    return _safe(page, answer)


def _failed(page: Page, request: Request, error: RankdError) -> Response:
    """The page of an error."""
    try:
        who = page.who(request)
    except (NotSignedIn, RankdError):
        who = None
    back = request.headers.get("referer", "")
    shown = page.template.render(
        "error.html", error=error, tabs=tabs(""), who=who, token="" if who is None else page.token(who),
        is_temporary=isinstance(error, Unavailable), is_change=request.method == "POST", site=page.site, back=back,
        title=_title(error, request),
    )  # fmt: skip
    headers = {"Retry-After": "1"} if error.retryable else None
    return HTMLResponse(shown, error.status, headers)


def _title(error: RankdError, request: Request) -> str:
    """What went wrong, in two words."""
    if request.method == "POST":
        return "Not done"
    return {403: "Not allowed", 404: "Not found"}.get(error.status, "Not shown")


async def _whole(page: Page, view: View, request: Request) -> Response:
    """A page with its content."""
    who = page.who(request)
    asker = who.asker(page.settings.privacy)
    given = parameters(request) | {name: str(value) for name, value in request.path_params.items()}
    done = given.pop("done", None)
    content = await view.make(page, asker, given)
    if "HX-Request" in request.headers:  # only the content, for a panel
        return HTMLResponse(content)
    query = urlencode([(name, value) for name, value in given.items() if name not in request.path_params])
    besides = {} if view.besides is None else await view.besides(page, asker, given)
    shown = page.template.render(
        view.template or "page.html", view=view, content=Markup(content),  # noqa: S704 - made by our own templates
        tabs=tabs(view.name), who=who, token=page.token(who), given=given,
        live=f"/live{request.url.path}" + (f"?{query}" if query else ""), site=page.site,
        title=view.title.format_map(given), problem=page.live.problem, done=done, **besides,
    )  # fmt: skip
    return HTMLResponse(shown)


async def _stream(page: Page, view: View, request: Request) -> Response:
    """A tab's stream of the same content."""
    asker = page.asker(request)
    given = parameters(request) | {name: str(value) for name, value in request.path_params.items()}
    key = view.key(asker, given)
    if not page.live.has_room(key, asker.user):
        raise Unavailable("too_many_tabs", "too many tabs are open; this one shows no changes until others are closed")
    make = partial(view.make, page, asker, given)
    await page.live.begin(key, make)
    last = request.headers.get("last-event-id", "")
    stream: AsyncIterator[bytes] = page.live.follow(key, make, last, asker.user, partial(page.may_go_on, request))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
