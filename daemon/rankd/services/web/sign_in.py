"""Signing in, by the link for one use or by a password, and signing out."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rankd.core.errors import Refused
from rankd.services.web.page import Page, fields_of
from rankd.services.web.password import failed
from rankd.services.web.session import COOKIE, LASTS_S, Session, change_token, is_change_token, sign
from rankd.services.web.sign_in_link import new_link, spend
from rankd.services.web.visitor import NOBODY, check_origin
from rankd.wire.diag import Diag, DiagAsked

log = logging.getLogger("rankd.web")

FORM_COOKIE = "rankd-form"
"""Names the browser whose form it is, before anybody is signed in: without it, another site could sign somebody in."""


def sign_in_page(page: Page, request: Request, status: int, problem: str = "") -> Response:
    """The page that says how to sign in, with a form if passwords are taken here."""
    site, token, nonce = page.site, "", ""
    if takes_passwords(page):
        nonce = request.cookies.get(FORM_COOKIE, "")[:64] or secrets.token_urlsafe(12)
        token = change_token(NOBODY, nonce, site.key)
    shown = page.template.render("sign_in.html", site=site, settings=page.settings, token=token, problem=problem)
    response = HTMLResponse(shown, status)
    if nonce:
        response.set_cookie(FORM_COOKIE, nonce, httponly=True, samesite="strict", secure=site.is_encrypted)
    return response


def takes_passwords(page: Page) -> bool:
    """Whether the page signs in by passwords: PAM is configured, and passwords can't be read on the way."""
    return bool(page.settings.web.pam) and page.site.is_private and not page.site.is_read_only


async def sign_in(page: Page, request: Request) -> Response:
    """Exchange the link's token for a cookie.

    Raises:
        Refused: ``bad_link``.
    """
    site = page.site
    if not await asyncio.to_thread(spend, site.state, request.query_params.get("token", "")):
        message = "this link has been used, or was replaced by another one; `rankd web --link` prints a new one"
        raise Refused("bad_link", message, status=403)
    await asyncio.to_thread(new_link, site.state, site.base)
    return _signed_in(page, site.owner, "by the link")


async def sign_in_by_password(page: Page, request: Request) -> Response:
    """Exchange a name and a password for a cookie.

    Raises:
        Refused: ``no_passwords``, ``other_origin``.
        Unavailable: rankd does not answer, so nothing is known about the user.
    """
    begun = time.monotonic()
    if not takes_passwords(page):
        raise Refused("no_passwords", "nobody signs in with a password here; open /queue to read how", status=403)
    check_origin(request.headers, page.site.hosts)
    fields = fields_of(await request.body())
    if not is_change_token(fields.get("token", ""), NOBODY, request.cookies.get(FORM_COOKIE, ""), page.site.key):
        return sign_in_page(page, request, 403, "this form is too old; try again")
    address = "" if request.client is None else request.client.host
    name, password = fields.get("user", "").strip(), fields.get("password", "")
    try:
        user = await page.passwords.user(page.settings.web.pam, name, password, address)
        await _check_known(page, user, begun, address)
    except Refused as refused:
        return sign_in_page(page, request, refused.status, refused.message)
    page.passwords.attempts.forget(name, address)
    return _signed_in(page, user, f"with a password, from {address}")


async def _check_known(page: Page, user: str, begun: float, address: str) -> None:
    """Check that rankd lets the page ask for this user.

    Raises:
        Refused: ``bad_sign_in``.
        Unavailable: ``no_answer``.
    """
    try:
        await page.asking.ask(user, "diag.show", DiagAsked(), Diag)
    except Refused as refused:
        log.warning("rankd does not let %s in: %s", user, refused.message)
        raise await failed(begun, address) from None


def _signed_in(page: Page, user: str, how: str) -> Response:
    """The cookie, with a page that goes on by itself.

    After a redirect from another site, the browser would not send the cookie.
    """
    site = page.site
    log.info("%s has signed in %s", user, how)
    session = Session(user=user, since=page.clock(), nonce=secrets.token_urlsafe(12))
    response = HTMLResponse(page.template.render("signed_in.html", user=user))
    response.set_cookie(
        COOKIE, sign(session, site.key), max_age=int(LASTS_S), httponly=True, samesite="strict",
        secure=site.is_encrypted,
    )  # fmt: skip
    return response


async def sign_out(page: Page, request: Request) -> Response:
    """End the session, and forget the cookie."""
    await page.changer(request)
    await page.end(request)
    response = sign_in_page(page, request, 200)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response
