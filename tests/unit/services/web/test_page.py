"""A broker that hangs does not hold up the views, which are made one after the other."""

from pathlib import Path
from types import SimpleNamespace

import nats.errors
import pytest

from rankd.core.errors import Unavailable
from rankd.services.web.asking import ANSWER_S, Asking
from rankd.services.web.live import Live
from rankd.services.web.page import DIAG_S, DIAG_WITHIN_S, Page, Site


class Hanging:
    """The client of a broker that answers nothing; it does not really wait."""

    def __init__(self):
        self.waited = []

    async def request(self, _subject, _payload, timeout):
        self.waited.append(timeout)
        raise nats.errors.TimeoutError


async def test_a_broker_that_hangs_is_asked_briefly_and_not_again_at_once():
    client, now = Hanging(), [100.0]
    site = Site(
        base="http://localhost", hosts=frozenset(), key=b"k" * 32, state=Path("/nowhere"), owner="alice",
        is_read_only=False, is_encrypted=False,
    )  # fmt: skip
    asking = Asking(SimpleNamespace(client=client), is_gateway=False)
    page = Page(site, None, Live(None), asking, lambda: now[0])
    for passed, asked in ((0.0, 1), (DIAG_S, 1), (0.1, 2)):
        now[0] += passed
        with pytest.raises(Unavailable) as unavailable:
            await page.diag("alice")
        assert unavailable.value.code == "no_answer"
        assert client.waited == [DIAG_WITHIN_S] * asked
    assert DIAG_WITHIN_S < ANSWER_S / 5
