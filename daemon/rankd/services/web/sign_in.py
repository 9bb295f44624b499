"""Signing in by the link for one use, and signing out."""

from __future__ import annotations

import asyncio
import logging
import secrets

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rankd.core.errors import Refused
from rankd.services.web.page import Page
from rankd.services.web.session import COOKIE, LASTS_S, Session, sign
from rankd.services.web.sign_in_link import new_link, spend

log = logging.getLogger("rankd.web")


async def sign_in(page: Page, request: Request) -> Response:
    """Exchange the link's token for a cookie.

    The answer is a page that goes on by itself: after a redirect from another site, the browser would not send the
    cookie.

    Raises:
        Refused: ``bad_link``.
    """
    site = page.site
    if not await asyncio.to_thread(spend, site.state, request.query_params.get("token", "")):
        message = "this link has been used, or was replaced by another one; `rankd web --link` prints a new one"
        raise Refused("bad_link", message, status=403)
    await asyncio.to_thread(new_link, site.state, site.base)
    log.info("%s has signed in", site.owner)
    session = Session(user=site.owner, since=page.clock(), nonce=secrets.token_urlsafe(12))
    response = HTMLResponse(page.template.render("signed_in.html", site=site))
    response.set_cookie(
        COOKIE, sign(session, site.key), max_age=int(LASTS_S), httponly=True, samesite="strict",
        secure=site.is_encrypted,
    )  # fmt: skip
    return response


async def sign_out(page: Page, request: Request) -> Response:
    """End the session, and forget the cookie."""
    who, _ = await page.changer(request)
    page.end(who.nonce)
    response = HTMLResponse(page.template.render("sign_in.html", site=page.site, settings=page.settings))
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response
