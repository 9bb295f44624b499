"""What if: other weights, or one more job, on a copy of the live state. The intake computes it as for `rankd whatif`.

Nothing is applied. The answer comes with the lines of a configuration that would do the same.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rankd.core.errors import Refused, Unavailable
from rankd.core.evaluate.whatif import WhatIf
from rankd.services.web.page import Page
from rankd.services.web.visitor import Visitor
from rankd.store.engine.reading import Reader
from rankd.store.look.priority_list import weights
from rankd.store.look.queue_list import queues
from rankd.wire.report import ReportMade, ReportPart, ReportPartRequest, ReportRequest

PATIENCE_S = 60.0
EVERY_S = 0.3
MOST_PARTS = 64
SHOWN = 20


async def show(page: Page, request: Request) -> Response:
    """The form."""
    who = page.who(request)
    return HTMLResponse(await _page(page, who, {}, None))


async def compute(page: Page, request: Request) -> Response:
    """The answer to a form."""
    who, fields = await page.changer(request)
    now = await page.look(weights)
    changed = _weights(fields, now)
    job = _job(fields)
    if not changed and job is None:
        raise Refused("usage", "change a weight, or ask for a new job", "weights")
    asked = ReportRequest(
        kind="whatif", weights=changed, submit=None if job is None else msgspec.json.encode(job).decode()
    )
    made = await page.asking.ask(who.user, "report.make", asked, ReportMade)
    try:
        async with asyncio.timeout(PATIENCE_S):
            answer = await _collect(page, who.user, made.report)
    except TimeoutError:
        raise Unavailable("too_slow", f"this took longer than {PATIENCE_S:g} s; `rankd whatif` has no limit") from None
    return HTMLResponse(await _page(page, who, fields, answer, changed))


async def _collect(page: Page, user: str, report: str) -> WhatIf:
    """The whole report."""
    parts, number = list[bytes](), 0
    while True:
        found = await page.asking.ask(user, "report.part", ReportPartRequest(report=report, part=number), ReportPart)
        if found.parts is None:
            await asyncio.sleep(EVERY_S)
            continue
        if found.parts > MOST_PARTS:
            raise Refused("too_large", "the answer is too large for a page; use `rankd whatif --json`")
        parts.append(found.data)
        number += 1
        if number >= found.parts:
            return msgspec.json.decode(b"".join(parts), type=WhatIf)


def _weights(fields: dict[str, str], now: dict[str, float]) -> dict[str, float]:
    """The weights that differ from those in force.

    Raises:
        Refused: ``bad_field``: one is no number.
    """
    found = dict[str, float]()
    for name, present in now.items():
        text = fields.get(f"weight.{name}", "").strip()
        try:
            value = float(text) if text else present
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise Refused("bad_field", f"'{text[:40]}' is no weight; write a number", "weights")
        if value != present:
            found[name] = value
    return found


def _job(fields: dict[str, str]) -> dict[str, Any] | None:
    """The new job; None if none was asked for."""
    if fields.get("cores", "").strip() == "":
        return None
    job: dict[str, Any] = {"command": ["true"], "name": "what if"}
    for name, field, scale in (("nodes", "nodes", 1), ("time_limit_s", "minutes", 60)):
        if text := fields.get(field, "").strip():
            job[name] = _whole(text, field) * scale
    job["resources"] = {"vcore": _whole(fields["cores"].strip(), "cores")}
    return job | {name: fields[name].strip() for name in ("queue", "qos", "account") if fields.get(name, "").strip()}


def _whole(text: str, field: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise Refused("bad_field", f"'{text[:40]}' is not a whole number", field)
    return int(text)


def _lines(changed: dict[str, float]) -> str:
    """The lines of rankd.toml that would do the same."""
    if not changed:
        return ""
    return "[priority.weights]\n" + "\n".join(f"{name} = {value:g}" for name, value in sorted(changed.items()))


async def _page(
    page: Page, who: Visitor, fields: dict[str, str], answer: WhatIf | None, changed: dict[str, float] | None = None
) -> str:
    from rankd.services.web.views import tabs  # noqa: PLC0415 - it lists this page

    def read(reader: Reader) -> tuple[dict[str, float], list[str]]:
        return weights(reader), [row["path"] for row in queues(reader) if row["is_leaf"]]

    now, leaves = await page.look(read)
    content = page.template.render(
        "_what_if.html", weights=now, leaves=leaves, qos=[one.name for one in page.settings.qos], fields=fields,
        answer=answer,
        lines=_lines(changed or {}), shown=SHOWN, who=who, token=page.token(who),
    )  # fmt: skip
    return page.template.render(
        "frame_only.html", title="What if", tabs=tabs("whatif"), who=who, token=page.token(who), site=page.site,
        content=Markup(content),  # noqa: S704 - made by our own templates
    )  # fmt: skip
