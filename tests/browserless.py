"""A browser without a screen: HTTP as a script sends it, with cookies, and one form's token."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from typing import NamedTuple, Self
from urllib.parse import urlencode, urlsplit

from watch import PATIENCE_S

TOKEN = re.compile(r'name="token" value="([^"]+)"')


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Visitor:
    """Asks the page at ``base``. ``headers``: with every request, such as those of a proxy."""

    def __init__(self, base: str, **headers: str) -> None:
        self.base = base
        self.place = urlsplit(base).netloc
        self.cookie = None
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def ask(self, path: str, form=None, **headers: str) -> Answer:
        sent = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie is not None:
            sent.setdefault("Cookie", self.cookie)
        body = None
        if form is not None:
            sent.setdefault("Origin", self.base)
            sent["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(form)
        connection = HTTPConnection(self.place, timeout=60)
        try:
            connection.request("GET" if form is None else "POST", path, body, sent)
            found = connection.getresponse()
            answer = Answer(found.status, dict(found.getheaders()), found.read().decode())
        finally:
            connection.close()
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].split(";")[0]
        return answer

    def sign_in(self, link: str) -> Answer:
        return self.ask(link.removeprefix(self.base))

    def token(self, path: str = "/queue") -> str:
        return TOKEN.search(self.ask(path).text)[1]


class Stream:
    """The stream of one tab, at ``/live`` of this path. ``last``: the mark of the event that the tab has had."""

    def __init__(self, visitor: Visitor, path: str, last: str = "") -> None:
        self._connection = HTTPConnection(visitor.place, timeout=PATIENCE_S)
        self._connection.request("GET", f"/live{path}", headers=visitor.headers | {"Last-Event-ID": last})
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def next(self) -> dict[str, str]:
        """The next event: its fields; the data as one text."""
        found: dict[str, str] = {}
        while True:
            line = self._answer.readline().decode().rstrip("\n")
            if not line and "event" in found:
                return found
            name, _, value = line.partition(": ")
            if name:
                found[name] = f"{found[name]}\n{value}" if name in found else value
