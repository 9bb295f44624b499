"""What if: other weights, values of classes, priorities of QoS and offsets of queues, or one more job.

The intake computes it as for `rankd whatif`: one such report at a time for all ordinary users, beside its own work.

Nothing is applied. The answer comes with the lines of a configuration that would do the same.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rankd.core.errors import Refused, Unavailable
from rankd.core.evaluate.variation import Variation, configuration_lines
from rankd.core.evaluate.whatif import WhatIf
from rankd.services.web.page import Page, parameters
from rankd.services.web.visitor import Visitor
from rankd.services.web.what_if_form import InForce, address, new_job, slider, variation
from rankd.store.look.web.form import FORM
from rankd.wire.report import ReportMade, ReportPart, ReportPartRequest, ReportRequest

PATIENCE_S = 120.0
"""As long as the intake computes a report."""
EVERY_S = 0.3
MOST_PARTS = 64
SHOWN, MOST_QUEUES = 50, 30
BUILT_IN = "system-"
"""How the names of built-in classes begin, which have fixed values."""


class _Known(NamedTuple):
    """What the form is made from."""

    now: InForce
    leaves: list[str]
    classes: list[str]


class _Answer(NamedTuple):
    """What the intake found for a form."""

    found: WhatIf
    changed: Variation
    has_job: bool


async def show(page: Page, request: Request) -> Response:
    """The form. The numbers of its address are filled in."""
    who = page.who(request)
    return HTMLResponse(_page(page, who, await _known(page, request), parameters(request), None))


async def compute(page: Page, request: Request) -> Response:
    """The answer to a form."""
    who, fields = await page.changer(request)
    known = await _known(page, request)
    changed, job = variation(fields, known.now), new_job(fields)
    if changed == Variation() and job is None:
        raise Refused("usage", "change a number, or fill in a new job", "weights")
    asked = ReportRequest(
        kind="whatif", weights=changed.weights, classes=changed.classes, qos=changed.qos, offsets=changed.queues,
        submit=None if job is None else msgspec.json.encode(job).decode(), summary=True,
    )  # fmt: skip
    made = await page.asking.ask(who.user, "report.make", asked, ReportMade)
    try:
        async with asyncio.timeout(PATIENCE_S):
            found = await _collect(page, who.user, made.report)
    except TimeoutError:
        message = f"this took longer than {PATIENCE_S:g} s; `rankd whatif` on the machine of the database has no limit"
        raise Unavailable("too_slow", message) from None
    return HTMLResponse(_page(page, who, known, fields, _Answer(found, changed, job is not None)))


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


async def _known(page: Page, request: Request) -> _Known:
    found = await page.look(FORM, page.asker(request), {})
    now = InForce(
        weights=found.weights,
        classes={name: value for name, value in found.classes.items() if not name.startswith(BUILT_IN)},
        qos=page.settings.qos,
        offsets=found.offsets,
    )
    return _Known(now, found.leaves, list(found.classes))


def _page(page: Page, who: Visitor, known: _Known, fields: dict[str, str], answer: _Answer | None) -> str:
    from rankd.services.web.views import tabs  # noqa: PLC0415 - it lists this page

    now = known.now
    named = {path for path in now.offsets if f"offset.{path}" in fields}  # also behind the first ones
    shown = dict([*((path, now.offsets[path]) for path in named), *now.offsets.items()][:MOST_QUEUES])
    groups = [
        ("weight", "Weights", now.weights, slider([*now.weights.values()], least=1000, is_signed=False)),
        ("class", "Values of classes", now.classes, slider([*now.classes.values()], least=1000, is_signed=True)),
        ("qos", "Priorities of QoS", now.qos, slider([*now.qos.values()], least=100, is_signed=False)),
        ("offset", "Offsets of queues", shown, slider([*shown.values()], least=1000, is_signed=True)),
    ]  # fmt: skip
    changed = Variation() if answer is None else answer.changed
    content = page.template.render(
        "_what_if.html", groups=groups, leaves=known.leaves, classes=known.classes, qos=list(now.qos), fields=fields,
        n_more=len(now.offsets) - len(shown), answer=answer, lines=configuration_lines(changed), shown=SHOWN, who=who,
        address=address(fields, changed), token=page.token(who),
    )  # fmt: skip
    return page.template.render(
        "frame_only.html", title="What if", tabs=tabs("whatif"), who=who, token=page.token(who), site=page.site,
        content=Markup(content),  # noqa: S704 - made by our own templates
    )  # fmt: skip
