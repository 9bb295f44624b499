import time

import msgspec
import pytest

from rankd.client import channel
from rankd.client.channel import SocketChannel, pages, repeated
from rankd.core.errors import Refused, Unavailable


class Flaky:
    """Answers after some failures, as a daemon that restarts does."""

    def __init__(self, failures, error):
        self.left = failures
        self.error = error

    def __call__(self, left_s):
        assert left_s > 0
        if self.left:
            self.left -= 1
            raise self.error
        return "done"


@pytest.fixture(autouse=True)
def soon_again(monkeypatch):
    """Nobody is spared by the pause here."""
    monkeypatch.setattr(channel, "RETRY_PAUSE_S", 0.001)
    monkeypatch.setattr(channel, "CONNECT_TIMEOUT_S", 0.01)


def test_what_is_unavailable_is_asked_again():
    assert repeated(Flaky(3, Unavailable("no_answer", "nobody")), time.monotonic() + 60) == "done"


def test_what_stays_unavailable_is_given_up_in_time_with_the_last_reason():
    with pytest.raises(Unavailable, match="nobody"):
        repeated(Flaky(10**9, Unavailable("no_answer", "nobody")), time.monotonic() + 0.05)
    with pytest.raises(Unavailable, match="did not answer in time"):
        repeated(Flaky(0, None), time.monotonic() - 1)


def test_what_is_refused_is_not_asked_again():
    action = Flaky(2, Refused("unknown_queue", "no"))
    with pytest.raises(Refused):
        repeated(action, time.monotonic() + 60)
    assert action.left == 1


class Paged:
    """Answers with two rows per page."""

    largest = 1000

    def __init__(self, n_rows):
        self.rows = [{"id": number} for number in range(n_rows)]
        self.asked = []

    def request(self, verb, payload, _kind):
        request = msgspec.json.decode(payload)
        self.asked.append((verb, request))
        begin = request.get("after", 0)
        part = self.rows[begin : begin + min(2, request.get("limit", 2))]
        end = begin + len(part)
        return {"jobs": part, "total": len(self.rows)} | ({"next": {"after": end}} if end < len(self.rows) else {})


@pytest.mark.parametrize(("most", "n_requests"), [(2, 1), (3, 2), (100, 3)])
def test_lists_are_asked_for_page_by_page_up_to_their_limit(most, n_requests):
    paged = Paged(5)
    rows, first = pages(paged, "job.list", "jobs", {"count": True}, most)
    assert rows == paged.rows[:most]
    assert first["total"] == 5
    assert [verb for verb, _ in paged.asked] == ["job.list"] * n_requests
    assert [request.get("count") for _, request in paged.asked] == [True] + [None] * (n_requests - 1), "all are counted"


def test_a_socket_at_which_nobody_listens_is_named(tmp_path):
    with pytest.raises(Unavailable, match=f"nobody answers at {tmp_path}/login.sock") as error:
        SocketChannel(tmp_path / "login.sock").request("job.list", b"{}", dict)
    assert error.value.retryable
