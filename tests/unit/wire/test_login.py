"""What announces a request at a login socket."""

import pytest

from rankd.core.errors import Refused
from rankd.wire.login import LONGEST_KEY, MOST_REQUEST_BYTES, LoginRequest, check_asked


def asked(**fields):
    return LoginRequest(want="answer", **{"verb": "job.submit", "size": 10} | fields)


@pytest.mark.parametrize(
    "fields", [{}, {"verb": "deadletter.list"}, {"size": 0}, {"size": MOST_REQUEST_BYTES}, {"key": "k" * LONGEST_KEY}]
)
def test_a_verb_with_its_size_is_a_request(fields):
    check_asked(asked(**fields))


@pytest.mark.parametrize(
    "verb",
    ["", "job", "job.", ".list", "job.list.x", "job.*", "job.>", "as-admin.job.cancel", "job list", "job.list\n",
     "JOB.LIST", "x" * 41 + ".list", "j\u00f6b.list", "$JS.API"],
)  # fmt: skip
def test_a_verb_can_not_name_another_subject(verb):
    with pytest.raises(Refused, match="is not a verb") as refused:
        check_asked(asked(verb=verb))
    assert refused.value.code == "bad_request"


@pytest.mark.parametrize("fields", [{"size": -1}, {"key": "k" * (LONGEST_KEY + 1)}, {"key": "a\r\nNats-Msg-Id: b"}])
def test_what_is_not_valid_is_refused(fields):
    with pytest.raises(Refused, match="not valid"):
        check_asked(asked(**fields))


def test_a_request_that_is_too_large_is_refused_before_it_is_read():
    with pytest.raises(Refused) as refused:
        check_asked(asked(size=MOST_REQUEST_BYTES + 1))
    assert (refused.value.code, refused.value.status) == ("too_large", 413)
