"""A broker that hangs does not hold up the views, which are made one after the other."""

from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode

import nats.errors
import pytest

from rankd.core.errors import Refused, Unavailable
from rankd.services.web.asking import ANSWER_S, Asking
from rankd.services.web.live import Live
from rankd.services.web.page import DIAG_S, DIAG_WITHIN_S, MOST_FIELDS, Page, Site, fields_of


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


def test_a_form_has_a_field_for_each_of_many_queues_and_no_end_of_them():
    """With 30 queues, five weights and some classes and QoS, What if was refused before."""
    form = {f"offset.root.q{number}": "0" for number in range(500)}
    assert fields_of(urlencode(form).encode()) == form
    for body in (urlencode({f"x{number}": "" for number in range(MOST_FIELDS + 1)}).encode(), b"\xff"):
        with pytest.raises(Refused, match="can't be read"):
            fields_of(body)
