"""A browser without a screen: HTTP as a script sends it, with cookies, and one form's token."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

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
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def ask(self, path: str, form=None, **headers: str) -> Answer:
        sent = self._headers | {name.replace("_", "-"): value for name, value in headers.items()}
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
