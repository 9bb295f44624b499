"""``rankd retry``: words in, messages out."""

import pytest

from rankd.cli.jobs.retry import requests_of
from rankd.cli.main import _parser
from rankd.core.errors import Refused
from rankd.wire.message import JobRetry


def requests(*words):
    arguments = _parser("retry").parse_args(["retry", *words])
    return requests_of(arguments, [name for group in arguments.job for name in group])


def test_each_name_is_a_request_with_a_key_of_its_own():
    found = requests("17,18", "20_[1-3]", "21_4", "--failed", "-H")
    assert [one.id for one in found] == [17, 18, "20_[1-3]", "21_4"]
    assert all(one.failed and one.held for one in found)
    assert len({one.key for one in [*found, *requests("17")]}) == 5


def test_a_key_is_for_one_job():
    assert requests("17", "--key", "again") == [JobRetry(id=17, key="again")]
    with pytest.raises(Refused) as caught:
        requests("17", "18", "--key", "again")
    assert caught.value.code == "usage"
