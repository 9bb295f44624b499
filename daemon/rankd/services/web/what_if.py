"""What if: other weights, priorities of QoS and offsets of queues, or one more job, on a copy of the live state.

The intake computes it as for `rankd whatif`.

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
from rankd.core.evaluate.variation import Variation, configuration_lines
from rankd.core.evaluate.whatif import WhatIf
from rankd.services.web.page import Page
from rankd.services.web.visitor import Visitor
from rankd.store.engine.reading import Reader, Row
from rankd.store.look.class_list import classes as class_list
from rankd.store.look.priority_list import weights
from rankd.store.look.queue_list import queues as queue_list
from rankd.wire.report import ReportMade, ReportPart, ReportPartRequest, ReportRequest

PATIENCE_S = 60.0
EVERY_S = 0.3
MOST_PARTS = 64
SHOWN, MOST_QUEUES = 20, 30


async def show(page: Page, request: Request) -> Response:
    """The form."""
    who = page.who(request)
    return HTMLResponse(await _page(page, who, {}, None))


async def compute(page: Page, request: Request) -> Response:
    """The answer to a form."""
    who, fields = await page.changer(request)
    now = await page.look(weights)
    present = await page.look(queue_list)
    offsets = _numbers(fields, "offset", {row["path"]: row["offset"] for row in present})
    changed = Variation(weights=_weights(fields, now), qos=_numbers(fields, "qos", _qos(page)), queues=offsets)
    job = _job(fields)
    if changed == Variation() and job is None:
        raise Refused("usage", "change a number, or ask for a new job", "weights")
    asked = ReportRequest(
        kind="whatif", weights=changed.weights, qos=changed.qos, offsets=changed.queues,
        submit=None if job is None else msgspec.json.encode(job).decode(),
    )  # fmt: skip
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
    return job | {
        name: fields[name].strip()
        for name in ("queue", "qos", "account", "priority_class")
        if fields.get(name, "").strip()
    }


def _whole(text: str, field: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise Refused("bad_field", f"'{text[:40]}' is not a whole number", field)
    return int(text)


def _qos(page: Page) -> dict[str, int]:
    return {one.name: one.priority for one in page.settings.qos}


def _numbers(fields: dict[str, str], kind: str, now: dict[str, int]) -> dict[str, int]:
    """The whole numbers of a kind that differ from those in force.

    Raises:
        Refused: ``bad_field``: one is no whole number.
    """
    found = dict[str, int]()
    for name, present in now.items():
        text = fields.get(f"{kind}.{name}", "").strip()
        if text and not (text.removeprefix("-").isascii() and text.removeprefix("-").isdecimal() and len(text) < 12):
            raise Refused("bad_field", f"'{text[:40]}' is not a whole number", kind)
        if text and int(text) != present:
            found[name] = int(text)
    return found


async def _page(
    page: Page, who: Visitor, fields: dict[str, str], answer: WhatIf | None, changed: Variation | None = None
) -> str:
    from rankd.services.web.views import tabs  # noqa: PLC0415 - it lists this page

    def read(reader: Reader) -> tuple[dict[str, float], list[Row], list[str]]:
        return weights(reader), queue_list(reader), [row["name"] for row in class_list(reader)]

    now, tree, classes = await page.look(read)
    content = page.template.render(
        "_what_if.html", weights=now, leaves=[row["path"] for row in tree if row["is_leaf"]], classes=classes,
        offsets=[row for row in tree if "." in row["path"]][:MOST_QUEUES], qos=_qos(page),
        fields=fields, answer=answer, lines=configuration_lines(changed or Variation()), shown=SHOWN, who=who,
        token=page.token(who),
    )  # fmt: skip
    return page.template.render(
        "frame_only.html", title="What if", tabs=tabs("whatif"), who=who, token=page.token(who), site=page.site,
        content=Markup(content),  # noqa: S704 - made by our own templates
    )  # fmt: skip
