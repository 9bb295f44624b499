"""The views: what each page shows, by its path. A view is made for an asker; all who see the same share one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from rankd.core.admission.privacy import sees_all
from rankd.core.admission.submitter import Submitter
from rankd.services.web.page import Page

Given = dict[str, str]
Besides = Callable[[Page, Submitter, Given], Awaitable[dict[str, Any]]]
"""What a page shows around its live content, such as forms, which the stream does not replace."""
Make = Callable[[Page, Submitter, Given], Awaitable[str]]
"""Makes the content of a view. ``Given``: the parameters of its URL, and of its path.

Raises:
    Refused: the asker may not see it, or there is no such thing.
    Unavailable: the records can't be read now.
"""


class View(NamedTuple):
    """``path``: as Starlette writes it. ``is_personal``: what it shows depends on who looks.

    ``template``: around the live content; empty: nothing is around it.
    """

    name: str
    path: str
    title: str
    make: Make
    is_personal: bool = False
    besides: Besides | None = None
    template: str = ""

    def key(self, asker: Submitter, given: Given) -> tuple[str, ...]:
        """What is the same for all tabs that can share one content."""
        who = asker.user if self.is_personal or not sees_all(asker) else ""
        return (self.name, who, *(f"{name}={value}" for name, value in sorted(given.items())))
